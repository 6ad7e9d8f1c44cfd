-- Cancel a run, a page of its steps at a time: what has not started is settled as cancelled, what runs is told by its
-- worker's next heartbeat.
-- needs: base ready settle
-- args: ns run cursor why
-- answers: {next cursor ('0': all pages seen), step of this page that still runs...}, or {UNKNOWN}, {ENDED}
local run, cursor = ARGV[2], ARGV[3]
fetch(run, {':status', ':left', ':join', ':order'})
if not get(run, ':status') then return {'UNKNOWN'} end
if is_over(run) then return {'ENDED'} end
if get(run, ':status') ~= 'cancelling' then
  put(run, ':status', 'cancelling')
  put(run, ':why', ARGV[4])
  redis.call('ZREM', global('deadlines'), run)
  if get(run, ':join') then forget(run, ':join') end
  redis.call('SADD', global('cancelling'), run)
  redis.call('SREM', global('paused'), run)
  redis.call('SREM', global('shifting'), run)
  event(run, 'run.cancel_asked', '-', '')
end
local page = redis.call('HSCAN', of(run), cursor, 'COUNT', 200)
local answer = {page[1]}
local UNSTARTED = {waiting = true, ready = true, held = true, parked = true, loading = true, joining = true}
for i = 1, #page[2], 2 do
  local step = page[2][i]
  if is_step(step) then view(run).read[step] = page[2][i + 1] end
  local st = is_step(step) and read_step(run, step)
  local word = st and st.word
  if UNSTARTED[word] then
    settle(run, step, st, 'cancelled', '{"status":"cancelled"}', {})
  elseif word == 'leased' then
    answer[#answer + 1] = step
  end
end
flush()
return answer
