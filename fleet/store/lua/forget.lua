-- Give the keys of an ended run a lifetime, once its events are in SQL.
-- needs: base end
-- args: ns run lifetime
-- answers: FORGOTTEN, OPEN
local run, lifetime = ARGV[2], math.max(1, tonumber(ARGV[3]))
if not is_over(run) then return {'OPEN'} end
redis.call('PEXPIRE', of(run), lifetime)
for _, part in ipairs(PARTS) do redis.call('PEXPIRE', of(run, part), lifetime) end
redis.call('ZREM', global('ended'), run)
return {'FORGOTTEN'}
