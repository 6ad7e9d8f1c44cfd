-- The ready sets, one a lane, in the order of claims; and which of them to tell Celery of.
-- needs: base

-- A step becomes ready: it enters its ready set at the end of the call, unless this call claims it before.
-- Lower comes first: priority, then the submission time less the remaining critical path.
-- A step of a paused run is held instead, out of the way of claims, until shift.lua lets it go.
local function make_ready(run, step, st)
  if is_paused(run) then
    write_step(run, step, st, 'held')
    return
  end
  write_step(run, step, st, 'ready')
  fresh[#fresh + 1] = {run = run, step = step, lane = st.lane, score = get(run, ':order') - st.path}
  touch(st.lane)
end

-- A command takes so many arguments at most.
local MOST = 1000
local function all_of(command, key, list)
  if #list <= MOST then
    if list[1] then redis.call(command, key, unpack(list)) end
    return
  end
  for i = 1, #list, MOST do redis.call(command, key, unpack(list, i, math.min(i + MOST - 1, #list))) end
end

-- Write what this call has changed, one command a run and one a lane.
local function flush()
  for run, seen in pairs(views) do
    local fields, n = {}, 0
    for field, value in pairs(seen.changed) do
      fields[n + 1], fields[n + 2], n = field, value, n + 2
    end
    for step, st in pairs(seen.dirty) do
      fields[n + 1], fields[n + 2], n = step, record_text(st), n + 2
    end
    seen.changed, seen.dirty = {}, {}
    all_of('HSET', seen.key, fields)
  end
  if not fresh[1] then return end
  local scores = {}
  for _, f in ipairs(fresh) do
    local score = scores[f.lane] or {}
    scores[f.lane] = score
    score[#score + 1] = f.score
    score[#score + 1] = member(f.run, f.step)
  end
  for lane, score in pairs(scores) do
    all_of('ZADD', global('ready:' .. lane), score)
    emptied[lane] = nil
  end
  fresh = {}
end

-- Steps to send a message for: ready and untold ones, best first, no more than there are slots that sleep.
-- A message told of lapses after 2 s, so that one which was lost, or whose worker died, is sent again.
local LAPSE = 2000

-- A message costs about as much as several short steps. So a slot that goes on with a short one wakes others only for
-- work that would keep them, and those that are at it or on their way, busy for WORTH milliseconds each: it will be back
-- soon, and look again.
local WORTH, RECENT = 10, 20
local function worth(ready)
  if not claimed_own or claimed_own >= WORTH * 1000 then return ready end
  return math.floor(ready * claimed_own / (WORTH * 1000))
end
local function at_it(lane)
  if not claimed_own or claimed_own >= WORTH * 1000 then return 0 end
  return redis.call('ZCOUNT', global('leases:' .. lane), now + claimed_lease - RECENT, '+inf')
end

-- What Celery's own producer would have sent for the step; it is read by Celery's own consumer. In a script it costs a
-- hundredth of what it costs there, and there is no moment in which a step is told of and its message not sent.
local TASKS = {plan = 'fleet.plan.v1', join = 'fleet.join.v1'}
local BODY = '[[\\"%s\\",\\"%s\\"],{},{\\"callbacks\\":null,\\"errbacks\\":null,\\"chain\\":null,\\"chord\\":null}]'
local HEADERS = '{"lang":"py","task":"%s","id":"%s","shadow":null,"eta":null,"expires":null,"group":null,'
  .. '"group_index":null,"retries":0,"timelimit":[null,null],"root_id":"%s","parent_id":null,"argsrepr":"%s",'
  .. '"kwargsrepr":"{}","origin":"fleet","ignore_result":true,"replaced_task_nesting":0,"stamped_headers":null,'
  .. '"stamps":{}}'
local PROPERTIES = '{"correlation_id":"%s","reply_to":null,"delivery_mode":2,"delivery_info":{"exchange":"",'
  .. '"routing_key":"lane.%s"},"priority":0,"delivery_tag":"%s"}'
local MESSAGE = '{"body":"' .. BODY .. '","content-encoding":"utf-8","content-type":"application/json","headers":'
  .. HEADERS .. ',"properties":' .. PROPERTIES .. '}'

-- The message's id is that of the try that it asks for, as monitors know it; its tag is its own.
local function send(lane, run, step)
  local st = read_step(run, step)
  if not st then return end
  local id = run .. ':' .. step .. ':' .. (st.attempts + 1)
  local task = TASKS[string.match(step, '^(%a+)%.%d+$')] or 'fleet.step.v1'
  local shown = "('" .. run .. "', '" .. step .. "')"
  local text = string.format(MESSAGE, run, step, task, id, id, shown, id, lane, id .. ':' .. now_text)
  redis.call('LPUSH', global('celery:lane.' .. lane), text)
end

local function wakes_of(lane, most)
  local found = {}
  if emptied[lane] then return found end
  local ready = redis.call('ZCARD', global('ready:' .. lane))
  local want = worth(ready)
  if want == 0 then return found end
  local told = global('told:' .. lane)
  local pending = 0
  if redis.call('EXISTS', told) == 1 then
    redis.call('ZREMRANGEBYSCORE', told, '-inf', now_text)
    pending = redis.call('ZCARD', told)
  end
  if want < ready then want = want - at_it(lane) - pending end
  local free = tonumber(redis.call('GET', global('slots:' .. lane)) or '0') - redis.call('ZCARD', global('leases:' .. lane))
  want = math.min(free - pending, most, want)
  if want <= 0 then return found end
  for _, m in ipairs(redis.call('ZRANGE', global('ready:' .. lane), 0, math.min(pending + want, 64) - 1)) do
    if #found >= want then break end
    if not redis.call('ZSCORE', told, m) then
      local run, step = split(m)
      redis.call('ZADD', told, now + LAPSE, m)
      send(lane, run, step)
      found[#found + 1] = lane .. ' ' .. m
    end
  end
  return found
end

-- The last thing a call does: write what it has changed, and wake whom it should; it says whom. lanes: further ones to
-- look at, or ''.
local function wakes(lanes, most)
  flush()
  for lane in string.gmatch(lanes, '[^,]+') do touch(lane) end
  local found = {}
  for lane in pairs(lanes_touched) do
    if #found >= most then break end
    for _, m in ipairs(wakes_of(lane, most - #found)) do found[#found + 1] = m end
  end
  return found
end
