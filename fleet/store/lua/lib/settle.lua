-- Settling a step, and what that does to the steps that wait for it. Arrivals are remembered by name: a step settles
-- once, and each page of its children is gone through once.
-- needs: base ready

-- Arrivals that one script goes through: about 1 ms of Redis's time.
local BUDGET = 150

local function drained(run)
  local join = get(run, ':join')
  if not join then return end
  local st = read_step(run, join)
  if st and st.word == 'joining' then make_ready(run, join, st) end
end

-- Marks a step as ended, and queues the release of its children.
local function settle(run, step, st, status, outcome, work, data)
  redis.call('HSET', of(run, 'outcomes'), step, outcome)
  local was_join = string.sub(step, 1, 5) == 'join.'
  write_step(run, step, st, status)
  event(run, 'step.ended', step, data or ('{"status":"' .. status .. '"}'))
  work[#work + 1] = {step, status == 'succeeded' and 1 or 0, 0}
  if not was_join and count_left(run, -1) == 0 then drained(run) end
end

-- 'pending ok threshold': needs still open, needs that succeeded, successes that are enough (0: wait for all to end).
local function read_counts(more)
  local pending, ok, threshold, cursor = string.match(more, '^(%d+) (%d+) (%d+) ?(%d*)$')
  return tonumber(pending), tonumber(ok), tonumber(threshold), tonumber(cursor)
end

local function decide(run, step, st, pending, ok, threshold, work)
  if (threshold > 0 and ok >= threshold) or (threshold == 0 and pending == 0) then
    make_ready(run, step, st)
  elseif threshold > 0 and ok + pending < threshold then
    settle(run, step, st, 'skipped', '{"status":"skipped"}', work)
  else
    write_step(run, step, st, 'waiting', pending .. ' ' .. ok .. ' ' .. threshold)
  end
end

local function arrive(run, child, good, work)
  local st = read_step(run, child)
  if not st then return end
  if st.word == 'waiting' then
    local pending, ok, threshold = read_counts(st.more)
    decide(run, child, st, pending - 1, ok + good, threshold, work)
  elseif st.word == 'loading' then
    local pending, ok, threshold, cursor = read_counts(st.more)
    write_step(run, child, st, 'loading', (pending - 1) .. ' ' .. (ok + good) .. ' ' .. threshold .. ' ' .. cursor)
  end
end

-- Children stand in pages of at most PAGE characters: field '<step>/<n>' is page n, '<step>/last' the last n if it is not 0.
local PAGE = 600
local function page_field(step, page) return step .. '/' .. page end

-- Appends children to the last page of a step, and begins further ones.
local function add_children(run, step, children)
  local page = tonumber(get(run, step .. '/last') or '0')
  local ids = get(run, page_field(step, page)) or ''
  for _, child in ipairs(children) do
    if #ids >= PAGE then
      put(run, page_field(step, page), ids)
      page, ids = page + 1, ''
    end
    ids = ids == '' and child or (ids .. ' ' .. child)
  end
  put(run, page_field(step, page), ids)
  if page > 0 then put(run, step .. '/last', page) end
end

-- Goes through pages of children until none is left or the budget is spent; what is left is kept for cascade.lua.
local function cascade(run, work)
  local spent, i = 0, 1
  while work[i] and spent < BUDGET do
    local step, good, page = work[i][1], work[i][2], work[i][3]
    local ids = get(run, page_field(step, page))
    if ids then
      local children = {}
      for child in string.gmatch(ids, '%S+') do children[#children + 1] = child end
      -- An only child is mostly what the slot goes on with: its spec comes by the same command.
      local only = children[1]
      fetch(run, children[2] and children or {only, only .. '/spec'})
      for _, child in ipairs(children) do arrive(run, child, good, work) end
      spent = spent + #children
      if #ids >= PAGE then work[#work + 1] = {step, good, page + 1} end
    end
    i = i + 1
  end
  if not work[i] then return false end
  for k = i, #work do
    redis.call('RPUSH', of(run, 'cascade'), work[k][1] .. ' ' .. work[k][2] .. ' ' .. work[k][3])
  end
  redis.call('SADD', global('cascades'), run)
  return true
end
