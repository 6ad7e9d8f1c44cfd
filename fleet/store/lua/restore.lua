-- Put settled steps back into a run that is rebuilt from the record. What is there already stays.
-- needs: base
-- args: ns run records, records being JSON: [[id, spec, status, attempts, outcome], ...], 100 at most
-- answers: RESTORED number, CLOSED
local run, number = ARGV[2], 0
if is_over(run) then return {'CLOSED'} end
for _, record in ipairs(cjson.decode(ARGV[3])) do
  local id = record[1]
  if redis.call('HEXISTS', of(run, 'state'), id) == 0 then
    redis.call('HSET', of(run, 'steps'), id, record[2])
    redis.call('HSET', of(run, 'outcomes'), id, record[5])
    write_state(run, id, {attempts = record[4], losses = 0, retries = 0}, record[3])
    number = number + 1
  end
end
return {'RESTORED', number}
