-- Record an outcome once, release the steps that waited for it, end the run if the outcome ends it, and claim what the
-- worker does next.
-- needs: base ready settle claim end
-- args: ns run step fence status outcome event end lanes worker lease want most
--   event: data of step.ended. end: empty, or the data of run.ended, with its status in 'status'. want: 1 to claim.
-- answers: {COMMITTED or why not, more to cascade (1), drained while cancelling (1), claim, wakes}
local run, step, fence, status, outcome = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local lanes, worker, lease, want, most = ARGV[9], ARGV[10], tonumber(ARGV[11]), ARGV[12], tonumber(ARGV[13])
fetch(run, {step, page_field(step, 0), ':status', ':left', ':order', ':context'})
local st = read_step(run, step)
local answer = refuse(run, st, fence) or 'COMMITTED'
local more, closed = false, 0
if answer == 'COMMITTED' then
  unlease(run, step, st)
  local work = {}
  settle(run, step, st, status, outcome, work, ARGV[7])
  more = cascade(run, work)
  if ARGV[8] ~= '' then end_run(run, ARGV[8]) end
  if is_closed(run) then closed = 1 end
end
local claimed = {}
if want == '1' then claimed = claim(worker, lanes, lease) end
return {answer, more and 1 or 0, closed, claimed, wakes(lanes, most)}
