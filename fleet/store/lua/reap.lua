-- Take back the leases of one lane that ran out. A step that has cost fewer than `losses` workers is ready again; of the
-- others the attempts are named, for the caller to record their end and bury them. Plan and join steps run no tool that
-- could take a worker down, but they wait long, and so see many die: they may cost five times as many.
-- needs: base ready
-- args: ns lane limit losses most
-- answers: {number ready again, {run, step, fence, losses, worker, ...}, wakes, {the same of those ready again}}
local lane, limit, most_losses = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local key = global('leases:' .. lane)
local again, dead, taken = 0, {}, {}
local function name(list, ...)
  for _, x in ipairs({...}) do list[#list + 1] = x end
end
local function most_of(step)
  local kind = string.match(step, '^(%a+)%.%d+$')
  return (kind == 'plan' or kind == 'join') and most_losses * 5 or most_losses
end
for _, m in ipairs(redis.call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, limit)) do
  local run, step = split(m)
  local st = read_step(run, step)
  if not st or st.word ~= 'leased' or is_over(run) then
    redis.call('ZREM', key, m)
  else
    local fence, worker = string.match(st.more, '^(%S+) (%S+)')
    if st.losses + 1 >= most_of(step) then
      name(dead, run, step, fence, st.losses + 1, worker)
    else
      st.losses = st.losses + 1
      redis.call('ZREM', key, m)
      event(run, 'step.lost', step, '{"worker":"' .. worker .. '","losses":' .. st.losses .. '}')
      make_ready(run, step, st)
      again = again + 1
      name(taken, run, step, fence, st.losses, worker)
    end
  end
end
return {again, dead, wakes(lane, tonumber(ARGV[5])), taken}
