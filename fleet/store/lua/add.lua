-- Add steps, or more needs of steps, to a run. Adding what is there changes nothing: a step is known by its name, and
-- how many of its needs were linked by its cursor.
-- needs: base ready settle
-- args: ns run records most, records being JSON: [[id, spec, threshold, from, last, within, event, [need, ...]], ...] where
--   from is the index of the first need given, last is 1 when no more follow, within is 0 or milliseconds after which
--   the step runs with what is there, event is the data of step.added. A step 'join.n' waits for all others of the run.
-- answers: ADDED wake..., UNKNOWN_RUN, CLOSED, UNKNOWN_NEED step need
local run, records = ARGV[2], cjson.decode(ARGV[3])
if not about(run).status then return {'UNKNOWN_RUN'} end
if not takes_steps(run) then return {'CLOSED'} end
local here = {}
for _, record in ipairs(records) do
  for _, need in ipairs(record[8]) do
    if not here[need] then
      if not read_state(run, need) then return {'UNKNOWN_NEED', record[1], need} end
      here[need] = true
    end
  end
  here[record[1]] = true
end

local tried = about(run).tried
local work, children = {}, {}
local function create(id, record)
  local st = {attempts = tried, losses = 0, retries = 0}
  redis.call('HSET', of(run, 'steps'), id, record[2])
  specs[member(run, id)] = record[2]
  event(run, 'step.added', id, record[7])
  if string.sub(id, 1, 5) == 'join.' then
    redis.call('HSET', of(run), 'join', id)
    about(run).join = id
    write_state(run, id, st, 'joining')
    if tonumber(redis.call('HGET', of(run), 'left')) == 0 then make_ready(run, id, st) end
    return nil
  end
  redis.call('HINCRBY', of(run), 'left', 1)
  st.word, st.more = 'loading', '0 0 ' .. record[3] .. ' 0'
  states[member(run, id)] = st
  return st
end

local OPEN = {waiting = true, ready = true, leased = true, parked = true, loading = true, joining = true}

local function link(id, record, st)
  local pending, ok, threshold, cursor = string.match(st.more, '^(%d+) (%d+) (%d+) (%d+)')
  pending, ok, threshold, cursor = tonumber(pending), tonumber(ok), tonumber(threshold), tonumber(cursor)
  if cursor ~= record[4] then return end
  for _, need in ipairs(record[8]) do
    local word = read_state(run, need).word
    if word == 'succeeded' then
      ok = ok + 1
    elseif OPEN[word] then
      pending = pending + 1
      children[need] = children[need] or {}
      table.insert(children[need], id)
    end
    cursor = cursor + 1
  end
  if record[5] == 1 then
    decide(run, id, st, pending, ok, threshold, work)
    if record[6] > 0 and st.word == 'waiting' then redis.call('ZADD', global('timers'), now + record[6], member(run, id)) end
  else
    write_state(run, id, st, 'loading', pending .. ' ' .. ok .. ' ' .. threshold .. ' ' .. cursor)
  end
end

for _, record in ipairs(records) do
  local id = record[1]
  local st = read_state(run, id)
  if not st and record[4] == 0 then st = create(id, record) end
  if st and st.word == 'loading' then link(id, record, st) end
end
for need, ids in pairs(children) do add_children(run, need, ids) end
cascade(run, work)
return {'ADDED', unpack(wakes('', tonumber(ARGV[4])))}
