-- Let go of a claimed step until a time: a retry after a backoff, a breaker that is open.
-- needs: base ready settle claim end
-- args: ns run step fence delay event retry lanes worker lease want most
--   delay: milliseconds (0: ready again at once). event: data of step.parked. retry: 1 counts as a retry.
-- answers: {PARKED or why not, 0, 0, claim, wakes}
local run, step, fence, delay = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local lanes, worker, lease, want, most = ARGV[8], ARGV[9], tonumber(ARGV[10]), ARGV[11], tonumber(ARGV[12])
fetch(run, {step, ':status', ':left', ':order', ':context'})
local st = read_step(run, step)
local answer = refuse(run, st, fence) or 'PARKED'
local closed = 0
if answer == 'PARKED' then
  unlease(run, step, st)
  st.retries = st.retries + tonumber(ARGV[7])
  event(run, 'step.parked', step, ARGV[6])
  if get(run, ':status') == 'cancelling' then
    settle(run, step, st, 'cancelled', '{"status":"cancelled"}', {})
    if is_closed(run) then closed = 1 end
  elseif delay > 0 then
    write_step(run, step, st, 'parked', string.format('%.0f', now + delay))
    redis.call('ZADD', global('timers'), now + delay, member(run, step))
  else
    make_ready(run, step, st)
  end
end
local claimed = {}
if want == '1' then claimed = claim(worker, lanes, lease) end
return {answer, 0, closed, claimed, wakes(lanes, most)}
