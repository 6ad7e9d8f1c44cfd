-- Go on releasing the children of settled steps where a script's budget ended.
-- needs: base ready settle
-- args: ns run most
-- answers: MORE or DONE, wake...
local run = ARGV[2]
if is_over(run) then
  redis.call('DEL', of(run, 'cascade'))
  redis.call('SREM', global('cascades'), run)
  return {'DONE'}
end
local work = {}
for _ = 1, 16 do
  local item = redis.call('LPOP', of(run, 'cascade'))
  if not item then break end
  local step, good, page = string.match(item, '^(%S+) (%d) (%d+)$')
  work[#work + 1] = {step, tonumber(good), tonumber(page)}
end
if not cascade(run, work) and redis.call('LLEN', of(run, 'cascade')) == 0 then redis.call('SREM', global('cascades'), run) end
local more = redis.call('SISMEMBER', global('cascades'), run) == 1
return {more and 'MORE' or 'DONE', unpack(wakes('', tonumber(ARGV[3])))}
