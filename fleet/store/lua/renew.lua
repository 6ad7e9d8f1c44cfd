-- A worker's heartbeat: it is alive, so many slots are its own, and it still works on these attempts.
-- needs: base
-- args: ns worker lanes slots lifetime lease records, records being JSON: [[run, step, fence, lane], ...], 500 at most
-- answers: {index of a refused record (from 0), why, ...}: STALE, DEADLINE, CANCELLED, SUPERSEDED
local worker, lanes, slots, lifetime, lease = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
if slots ~= '-' then
  redis.call('ZADD', global('workers'), now + lifetime, worker)
  redis.call('HSET', global('slots'), worker, lanes .. ' ' .. slots)
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', global('workers'), '-inf', now, 'LIMIT', 0, 100)) do
    redis.call('ZREM', global('workers'), gone)
    redis.call('HDEL', global('slots'), gone)
  end
  local total = {}
  for _, entry in ipairs(redis.call('HVALS', global('slots'))) do
    local names, number = string.match(entry, '^(%S+) (%d+)$')
    for lane in string.gmatch(names, '[^,]+') do total[lane] = (total[lane] or 0) + tonumber(number) end
  end
  for lane, number in pairs(total) do
    redis.call('SADD', global('lanes'), lane)
    redis.call('SET', global('slots:' .. lane), number, 'PX', lifetime * 4)
  end
end
local refused = {}
for i, record in ipairs(cjson.decode(ARGV[7])) do
  local run, step, fence, lane = record[1], record[2], record[3], record[4]
  local st = read_step(run, step)
  local why
  local status = get(run, ':status')
  if not st or not OPEN_RUN[status] then
    why = 'SUPERSEDED'
  else
    local held, deadline = string.match(st.more, '^(%S+) %S+ (%d+)')
    if st.word ~= 'leased' or held ~= fence then
      why = 'STALE'
    elseif tonumber(deadline) < now then
      why = 'DEADLINE'
    else
      redis.call('ZADD', global('leases:' .. lane), now + lease, member(run, step))
      if status == 'cancelling' then why = 'CANCELLED' end
    end
  end
  if why then
    refused[#refused + 1] = i - 1
    refused[#refused + 1] = why
  end
end
return refused
