-- Take the ready steps of a paused run out of the ready sets, or put those of one that goes on back, a page at a time.
-- needs: base ready
-- args: ns run cursor number most
--   number: of the change that is carried out; where a later one was made, that one is carried out instead.
-- answers: {next cursor ('0': all pages seen), wake...}, {LATER}
local run, cursor = ARGV[2], ARGV[3]
fetch(run, {':status', ':shifts', ':order'})
if not takes_steps(run) then
  redis.call('SREM', global('shifting'), run)
  return {'LATER'}
end
if get(run, ':shifts') ~= ARGV[4] then return {'LATER'} end
local page = redis.call('HSCAN', of(run), cursor, 'COUNT', 200)
for i = 1, #page[2], 2 do
  local step = page[2][i]
  if is_step(step) then view(run).read[step] = page[2][i + 1] end
  local st = is_step(step) and read_step(run, step)
  local word = st and st.word
  if word == 'ready' and is_paused(run) then
    redis.call('ZREM', global('ready:' .. st.lane), member(run, step))
    make_ready(run, step, st)
  elseif (word == 'ready' or word == 'held') and not is_paused(run) then
    make_ready(run, step, st)
  end
end
if page[1] == '0' then redis.call('SREM', global('shifting'), run) end
return {page[1], unpack(wakes('', tonumber(ARGV[5])))}
