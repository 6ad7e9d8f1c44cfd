-- A worker says goodbye: its slots are no more counted.
-- needs: base
-- args: ns worker
redis.call('ZREM', global('workers'), ARGV[2])
local entry = redis.call('HGET', global('slots'), ARGV[2])
redis.call('HDEL', global('slots'), ARGV[2])
if entry then
  local names, number = string.match(entry, '^(%S+) (%d+)$')
  for lane in string.gmatch(names, '[^,]+') do
    if redis.call('EXISTS', global('slots:' .. lane)) == 1 then redis.call('DECRBY', global('slots:' .. lane), number) end
  end
end
return {'LEFT'}
