-- Add steps, or more needs of steps, to a run. Adding what is there changes nothing: a step is known by its name, and
-- how many of its needs were linked by its cursor.
-- needs: base ready settle
-- args: ns run records most, records being JSON: [[id, spec, threshold, from, last, within, event, [need, ...]], ...] where
--   from is the index of the first need given, last is 1 when no more follow, within is 0 or milliseconds after which
--   the step runs with what is there, event is the data of step.added. A step 'join.n' waits for all others of the run.
-- answers: ADDED wake..., UNKNOWN_RUN, CLOSED, UNKNOWN_NEED step need
local run, records = ARGV[2], cjson.decode(ARGV[3])
local wanted = {':status', ':left', ':order', ':tried', ':join'}
for _, record in ipairs(records) do
  wanted[#wanted + 1] = record[1]
  for _, need in ipairs(record[8]) do wanted[#wanted + 1] = need end
end
fetch(run, wanted)
if not get(run, ':status') then return {'UNKNOWN_RUN'} end
if not takes_steps(run) then return {'CLOSED'} end
local here = {}
for _, record in ipairs(records) do
  for _, need in ipairs(record[8]) do
    if not here[need] then
      if not get(run, need) then return {'UNKNOWN_NEED', record[1], need} end
      here[need] = true
    end
  end
  here[record[1]] = true
end

local tried = get(run, ':tried') or '0'
local work, children, needed = {}, {}, {}
local function create(id, record)
  local st = new_step(run, id, record[2], tried)
  event(run, 'step.added', id, record[7])
  if string.sub(id, 1, 5) == 'join.' then
    put(run, ':join', id)
    write_step(run, id, st, 'joining')
    if tonumber(get(run, ':left')) == 0 then make_ready(run, id, st) end
    return nil
  end
  count_left(run, 1)
  write_step(run, id, st, 'loading', '0 0 ' .. record[3] .. ' 0')
  return st
end

local OPEN = {waiting = true, ready = true, held = true, leased = true, parked = true, loading = true, joining = true}

local function link(id, record, st)
  local pending, ok, threshold, cursor = read_counts(st.more)
  if cursor ~= record[4] then return end
  for _, need in ipairs(record[8]) do
    local word = read_step(run, need).word
    if word == 'succeeded' then
      ok = ok + 1
    elseif OPEN[word] then
      pending = pending + 1
      if not children[need] then
        children[need] = {}
        needed[#needed + 1] = need
      end
      table.insert(children[need], id)
    end
    cursor = cursor + 1
  end
  if record[5] == 1 then
    decide(run, id, st, pending, ok, threshold, work)
    if record[6] > 0 and st.word == 'waiting' then redis.call('ZADD', global('timers'), now + record[6], member(run, id)) end
  else
    write_step(run, id, st, 'loading', pending .. ' ' .. ok .. ' ' .. threshold .. ' ' .. cursor)
  end
end

for _, record in ipairs(records) do
  local id = record[1]
  local st = read_step(run, id)
  if not st and record[4] == 0 then st = create(id, record) end
  if st and st.word == 'loading' then link(id, record, st) end
end
local pages = {}
for _, need in ipairs(needed) do
  pages[#pages + 1] = need .. '/last'
  pages[#pages + 1] = page_field(need, 0)
end
fetch(run, pages)
for _, need in ipairs(needed) do add_children(run, need, children[need]) end
cascade(run, work)
return {'ADDED', unpack(wakes('', tonumber(ARGV[4])))}
