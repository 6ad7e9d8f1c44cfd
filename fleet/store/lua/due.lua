-- Make ready what a timer held: parked steps whose time has come, and best-effort joins that waited long enough.
-- needs: base ready settle
-- args: ns limit most
-- answers: {number of timers handled, wakes}
local due = redis.call('ZRANGEBYSCORE', global('timers'), '-inf', now, 'LIMIT', 0, tonumber(ARGV[2]))
for _, m in ipairs(due) do
  local run, step = split(m)
  local st = read_step(run, step)
  if st and (st.word == 'parked' or st.word == 'waiting') and not is_over(run) then make_ready(run, step, st) end
  redis.call('ZREM', global('timers'), m)
end
return {#due, wakes('', tonumber(ARGV[3]))}
