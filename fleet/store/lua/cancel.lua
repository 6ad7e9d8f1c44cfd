-- Cancel a run, a page of its steps at a time: what has not started is settled as cancelled, what runs is told by its
-- worker's next heartbeat.
-- needs: base ready settle
-- args: ns run cursor why
-- answers: {next cursor ('0': all pages seen), step of this page that still runs...}, or {UNKNOWN}, {ENDED}
local run, cursor = ARGV[2], ARGV[3]
if not about(run).status then return {'UNKNOWN'} end
if is_over(run) then return {'ENDED'} end
if about(run).status ~= 'cancelling' then
  about(run).status, about(run).join = 'cancelling', nil
  redis.call('HSET', of(run), 'status', 'cancelling', 'why', ARGV[4])
  redis.call('ZREM', global('deadlines'), run)
  redis.call('HDEL', of(run), 'join')
  redis.call('SADD', global('cancelling'), run)
  event(run, 'run.cancel_asked', '', '')
end
local page = redis.call('HSCAN', of(run, 'state'), cursor, 'COUNT', 100)
local answer = {page[1]}
for i = 1, #page[2], 2 do
  local st = parse_state(page[2][i + 1])
  local word = st.word
  if word == 'waiting' or word == 'ready' or word == 'parked' or word == 'loading' or word == 'joining' then
    settle(run, page[2][i], st, 'cancelled', '{"status":"cancelled"}', {})
  elseif word == 'leased' then
    answer[#answer + 1] = page[2][i]
  end
end
return answer
