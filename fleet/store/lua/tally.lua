-- Tell a breaker how a call went.
-- needs: base
-- args: ns name good failures window rest
-- answers: {state, whether it changed (1)}
local key = global('breaker:' .. ARGV[2])
local good, most, window, rest = ARGV[3] == '1', tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local state = redis.call('HGET', key, 'state') or 'closed'
if good then
  if redis.call('EXISTS', key) == 0 then return {'closed', 0} end
  redis.call('DEL', key)
  return {'closed', state == 'open' and 1 or 0}
end
if state == 'open' then
  redis.call('HSET', key, 'until', now + rest)
  return {'open', 0}
end
local first = tonumber(redis.call('HGET', key, 'first') or '0')
if now - first > window then redis.call('HSET', key, 'first', now, 'failures', 0) end
local failures = redis.call('HINCRBY', key, 'failures', 1)
redis.call('PEXPIRE', key, math.max(window, rest) * 10)
if failures < most then return {'closed', 0} end
redis.call('HSET', key, 'state', 'open', 'until', now + rest)
return {'open', 1}
