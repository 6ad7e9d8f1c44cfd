-- Ask a breaker whether a call may be made.
-- needs: base
-- args: ns name rest
-- answers: {state, milliseconds to wait}: closed 0 and half_open 0 let the call pass; open says how long to wait.
local key = global('breaker:' .. ARGV[2])
local state = redis.call('HMGET', key, 'state', 'until')
if state[1] ~= 'open' then return {'closed', 0} end
local wait = tonumber(state[2]) - now
if wait > 0 then return {'open', wait} end
-- The rest is over: this caller is the single probe; the next one waits a further rest, in case the probe dies.
redis.call('HSET', key, 'until', now + tonumber(ARGV[3]))
return {'half_open', 0}
