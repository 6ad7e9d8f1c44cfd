-- Claim the best ready step.
-- needs: base ready claim
-- args: ns worker lanes lease told most
--   told: the '<run> <step>' whose message woke the slot, or empty; most: how many further slots to wake.
-- answers: {claim, wakes}
local worker, lanes, lease, told = ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local claimed = claim(worker, lanes, lease)

-- One message has arrived. Where the step it was sent for is not the one that was claimed, the claimed one's own message
-- is still on its way, and will take this step: it stands for it from here on, so that none is sent again.
local function arrived(lane)
  local key = global('told:' .. lane)
  local taken = claimed[1] and member(claimed[1], claimed[2]) or told
  if taken ~= told and redis.call('ZREM', key, taken) == 1 then return end
  redis.call('ZREM', key, told)
end
if told ~= '' then
  for lane in string.gmatch(lanes, '[^,]+') do arrived(lane) end
end
return {claimed, wakes(lanes, tonumber(ARGV[6]))}
