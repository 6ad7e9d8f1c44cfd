-- Settle a step that took its workers down, once its end is on record.
-- needs: base ready settle claim end
-- args: ns run step fence status outcome event end most
--   end: empty, or the data of run.ended, where the run can't go on without the step.
-- answers: {COMMITTED or why not, more to cascade (1), drained while cancelling (1), wakes}
local run, step = ARGV[2], ARGV[3]
local st = read_step(run, step)
local answer = refuse(run, st, ARGV[4]) or 'COMMITTED'
local more, closed = false, 0
if answer == 'COMMITTED' then
  unlease(run, step, st)
  st.losses = st.losses + 1
  local work = {}
  settle(run, step, st, ARGV[5], ARGV[6], work, ARGV[7])
  more = cascade(run, work)
  if ARGV[8] ~= '' then end_run(run, ARGV[8]) end
  if is_closed(run) then closed = 1 end
end
return {answer, more and 1 or 0, closed, wakes('', tonumber(ARGV[9]))}
