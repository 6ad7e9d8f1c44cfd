-- Pause a run: nothing of it is claimed from here on. What is ready already is taken out of the ready sets by shift.lua.
-- needs: base
-- args: ns run
-- answers: {PAUSED, number of this change}, {UNKNOWN}, {CLOSED}: it has ended, or is being cancelled
local run = ARGV[2]
fetch(run, {':status', ':shifts'})
if not get(run, ':status') then return {'UNKNOWN'} end
if not takes_steps(run) then return {'CLOSED'} end
if not is_paused(run) then event(run, 'run.paused', '-', '') end
-- Counted also where it was paused already: who means to let it go on, and decided so before, is refused.
local number = tonumber(get(run, ':shifts') or '0') + 1
redis.call('HSET', of(run), ':status', 'paused', ':shifts', number)
redis.call('SADD', global('paused'), run)
redis.call('SADD', global('shifting'), run)
return {'PAUSED', number}
