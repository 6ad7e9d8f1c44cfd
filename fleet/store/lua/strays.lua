-- Leases that a worker holds and that nobody has renewed of late: of claims whose answer it has not come to read.
-- needs: base
-- args: ns worker lanes within
--   within: only leases that run out within so many milliseconds, or have, are looked at.
-- answers: {run, step, fence, lane, ...}
local worker, lanes, within = ARGV[2], ARGV[3], tonumber(ARGV[4])
local MOST = 500
local found = {}
for lane in string.gmatch(lanes, '[^,]+') do
  for _, m in ipairs(redis.call('ZRANGEBYSCORE', global('leases:' .. lane), '-inf', now + within, 'LIMIT', 0, MOST)) do
    local run, step = split(m)
    local st = read_step(run, step)
    local fence, holder = string.match(st and st.word == 'leased' and st.more or '', '^(%S+) (%S+)')
    if holder == worker then
      for _, x in ipairs({run, step, fence, lane}) do found[#found + 1] = x end
    end
  end
end
return found
