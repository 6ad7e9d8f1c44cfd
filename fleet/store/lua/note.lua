-- Append an event that goes with no change of a step; and move an open run between running and asking.
-- needs: base
-- args: ns run kind step data status (empty: stays)
-- answers: NOTED, CLOSED
local run, status = ARGV[2], redis.call('HGET', of(ARGV[2]), 'status')
if status ~= 'running' and status ~= 'asking' then return {'CLOSED'} end
if ARGV[6] ~= '' then redis.call('HSET', of(run), 'status', ARGV[6]) end
event(run, ARGV[3], ARGV[4], ARGV[5])
return {'NOTED'}
