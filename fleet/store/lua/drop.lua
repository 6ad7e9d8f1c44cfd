-- Drop steps that a repaired plan no longer wants and that have not ended: a late outcome of one is SUPERSEDED.
-- needs: base ready settle
-- args: ns run step...  (100 at most)
-- answers: dropped step...
local run = ARGV[2]
local dropped = {}
if is_over(run) then return dropped end
for i = 3, #ARGV do
  local step = ARGV[i]
  local st = read_step(run, step)
  if st and redis.call('HEXISTS', of(run, 'outcomes'), step) == 0 then
    redis.call('ZREM', global('ready:' .. st.lane), member(run, step))
    redis.call('ZREM', global('leases:' .. st.lane), member(run, step))
    forget(run, step)
    forget(run, step .. '/spec')
    event(run, 'step.ended', step, '{"status":"superseded"}')
    dropped[#dropped + 1] = step
    if count_left(run, -1) == 0 then drained(run) end
  end
end
flush()
return dropped
