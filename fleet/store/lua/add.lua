-- Add steps, or more needs of steps, to a run. Adding what is there changes nothing: a step is known by its name, and
-- how many of its needs were linked by its cursor.
-- needs: base ready settle
-- args: ns run records most, records being JSON: [[id, spec, threshold, from, last, within, event, [need, ...]], ...] where
--   from is the index of the first need given, last is 1 when no more follow, within is 0 or milliseconds after which
--   the step runs with what is there, event is the data of step.added. A step 'join.n' waits for all others of the run.
-- answers: ADDED wake..., UNKNOWN_RUN, CLOSED, UNKNOWN_NEED step need
local run, records = ARGV[2], cjson.decode(ARGV[3])
local status = redis.call('HGET', of(run), 'status')
if not status then return {'UNKNOWN_RUN'} end
if status ~= 'running' and status ~= 'asking' then return {'CLOSED'} end
local here = {}
for _, record in ipairs(records) do here[record[1]] = true end
for _, record in ipairs(records) do
  for _, need in ipairs(record[8]) do
    if not here[need] and redis.call('HEXISTS', of(run, 'state'), need) == 0 then return {'UNKNOWN_NEED', record[1], need} end
  end
end

local work = {}
local function create(id, record)
  local st = {attempts = 0, losses = 0, retries = 0}
  redis.call('HSET', of(run, 'steps'), id, record[2])
  event(run, 'step.added', id, record[7])
  if string.sub(id, 1, 5) == 'join.' then
    redis.call('HSET', of(run), 'join', id)
    write_state(run, id, st, 'joining')
    if tonumber(redis.call('HGET', of(run), 'left')) == 0 then touch(make_ready(run, id, st, record[2])) end
    return nil
  end
  redis.call('HINCRBY', of(run), 'left', 1)
  if record[6] > 0 then redis.call('ZADD', global('timers'), now + record[6], member(run, id)) end
  write_state(run, id, st, 'loading', '0 0 ' .. record[3] .. ' 0')
  return read_state(run, id)
end

local function link(id, record, st)
  local pending, ok, threshold, cursor = string.match(st.more, '^(%d+) (%d+) (%d+) (%d+)')
  pending, ok, threshold, cursor = tonumber(pending), tonumber(ok), tonumber(threshold), tonumber(cursor)
  if cursor ~= record[4] then return end
  for _, need in ipairs(record[8]) do
    local word = read_state(run, need).word
    if word == 'succeeded' then
      ok = ok + 1
    elseif redis.call('HEXISTS', of(run, 'outcomes'), need) == 0 then
      pending = pending + 1
      add_child(run, need, id)
    end
    cursor = cursor + 1
  end
  if record[5] == 1 then
    decide(run, id, st, pending, ok, threshold, work)
  else
    write_state(run, id, st, 'loading', pending .. ' ' .. ok .. ' ' .. threshold .. ' ' .. cursor)
  end
end

for _, record in ipairs(records) do
  local id = record[1]
  local st = read_state(run, id)
  if not st then st = create(id, record) end
  if st and st.word == 'loading' then link(id, record, st) end
end
cascade(run, work)
return {'ADDED', unpack(wakes(touched(), tonumber(ARGV[4])))}
