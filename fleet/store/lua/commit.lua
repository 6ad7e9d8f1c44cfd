-- Record an outcome once, release the steps that waited for it, end the run if the outcome ends it, and claim what the
-- worker does next.
-- needs: base ready settle claim end
-- args: ns run step fence status outcome event end lanes worker lease want most again
--   event: data of step.ended. end: empty, or the data of run.ended, with its status in 'status'. want: 1 to claim.
--   again: 1 where nothing was heard of an earlier call; if that was made, its answer is given once more.
-- answers: {COMMITTED or why not, more to cascade (1), drained while cancelling (1), claim, wakes}
local run, step, fence, status, outcome = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local lanes, worker, lease, want, most = ARGV[9], ARGV[10], tonumber(ARGV[11]), ARGV[12], tonumber(ARGV[13])
fetch(run, {step, page_field(step, 0), ':status', ':left', ':order', ':context'})
local st = read_step(run, step)
local again = ARGV[14] == '1' and st and st.word == status and string.match(st.more, '^(%S+)') == fence
local answer = again and 'COMMITTED' or refuse(run, st, fence) or 'COMMITTED'
local more, closed = false, 0
if answer == 'COMMITTED' and not again then
  unlease(run, step, st)
  local work = {}
  settle(run, step, st, status, outcome, work, ARGV[7])
  more = cascade(run, work)
  if ARGV[8] ~= '' then end_run(run, ARGV[8]) end
  if is_closed(run) then closed = 1 end
end
if again and is_closed(run) then closed = 1 end
local claimed = again and recalled(run, st, worker, lease) or {}
if want == '1' and not claimed[1] then claimed = claim(worker, lanes, lease) end
if answer == 'COMMITTED' then remember(run, step, st, fence, claimed) end
return {answer, more and 1 or 0, closed, claimed, wakes(lanes, most)}
