-- Put settled steps back into a run that is rebuilt from the record. What is there already stays.
-- needs: base ready
-- args: ns run records, records being JSON: [[id, spec, status, attempts, outcome], ...], 100 at most
-- answers: RESTORED number, CLOSED
local run, records, number = ARGV[2], cjson.decode(ARGV[3]), 0
if is_over(run) then return {'CLOSED'} end
local ids = {}
for i, record in ipairs(records) do ids[i] = record[1] end
fetch(run, ids)
for _, record in ipairs(records) do
  local id = record[1]
  if not read_step(run, id) then
    redis.call('HSET', of(run, 'outcomes'), id, record[5])
    write_step(run, id, new_step(run, id, record[2], record[4]), record[3])
    number = number + 1
  end
end
flush()
return {'RESTORED', number}
