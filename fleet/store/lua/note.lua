-- Append an event that goes with no change of a step; and move an open run between running and asking.
-- needs: base
-- args: ns run kind step data status (empty: stays, as does that of a paused run)
-- answers: NOTED, CLOSED
local run = ARGV[2]
if not takes_steps(run) then return {'CLOSED'} end
if ARGV[6] ~= '' and not is_paused(run) then redis.call('HSET', of(run), ':status', ARGV[6]) end
event(run, ARGV[3], ARGV[4] ~= '' and ARGV[4] or '-', ARGV[5])
return {'NOTED'}
