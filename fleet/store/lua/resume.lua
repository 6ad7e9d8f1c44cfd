-- Let a paused run go on: what becomes ready may be claimed from here on. What was held is put back by shift.lua.
-- needs: base
-- args: ns run status number
--   status: running or asking. number: of the newest change when the caller decided; a later pause stands.
-- answers: {RESUMED, number of this change}, {IGNORED}: it is not paused, or was paused again
local run = ARGV[2]
fetch(run, {':status', ':shifts'})
if not is_paused(run) or get(run, ':shifts') ~= ARGV[4] then return {'IGNORED'} end
local number = tonumber(ARGV[4]) + 1
redis.call('HSET', of(run), ':status', ARGV[3], ':shifts', number)
redis.call('SREM', global('paused'), run)
redis.call('SADD', global('shifting'), run)
event(run, 'run.resumed', '-', '')
return {'RESUMED', number}
