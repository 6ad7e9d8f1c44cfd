-- Claim the best ready step.
-- needs: base ready claim
-- args: ns worker lanes lease told most
--   told: the '<run> <step>' whose message woke the slot, or empty; most: how many further slots to wake.
-- answers: {claim, wakes}
local worker, lanes, lease, told = ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
if told ~= '' then
  for lane in string.gmatch(lanes, '[^,]+') do redis.call('ZREM', global('told:' .. lane), told) end
end
local claimed = claim(worker, lanes, lease)
return {claimed, wakes(lanes, tonumber(ARGV[6]))}
