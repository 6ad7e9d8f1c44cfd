-- The ready sets, one a lane, in the order of claims; and which of them to tell Celery of.
-- needs: base

-- A step becomes ready: it is written by flush, unless this call claims it at once.
-- Lower comes first: priority, then the submission time less the remaining critical path.
local function make_ready(run, step, st)
  local header = read_header(read_spec(run, step))
  st.word, st.more = 'ready', ''
  fresh[#fresh + 1] = {run = run, step = step, st = st, lane = header.lane, score = about(run).order - header.path}
  touch(header.lane)
end

-- Write the steps that became ready and were not claimed, one command a run and one a lane.
local function flush()
  if #fresh == 0 then return end
  local fields, scores = {}, {}
  for _, f in ipairs(fresh) do
    local state, score = fields[f.run] or {}, scores[f.lane] or {}
    fields[f.run], scores[f.lane] = state, score
    state[#state + 1] = f.step
    state[#state + 1] = state_text(f.st)
    score[#score + 1] = f.score
    score[#score + 1] = member(f.run, f.step)
  end
  for run, state in pairs(fields) do
    for i = 1, #state, 1000 do redis.call('HSET', of(run, 'state'), unpack(state, i, math.min(i + 999, #state))) end
  end
  for lane, score in pairs(scores) do
    for i = 1, #score, 1000 do redis.call('ZADD', global('ready:' .. lane), unpack(score, i, math.min(i + 999, #score))) end
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
local function worth(lane, ready, pending)
  if not claimed_own or claimed_own >= WORTH * 1000 then return ready end
  local active = redis.call('ZCOUNT', global('leases:' .. lane), now + claimed_lease - RECENT, '+inf')
  return math.floor(ready * claimed_own / (WORTH * 1000)) - active - pending
end

local function wakes_of(lane, most)
  local found = {}
  local ready = redis.call('ZCARD', global('ready:' .. lane))
  if ready == 0 then return found end
  local told = global('told:' .. lane)
  local pending = 0
  if redis.call('EXISTS', told) == 1 then
    redis.call('ZREMRANGEBYSCORE', told, '-inf', now)
    pending = redis.call('ZCARD', told)
  end
  local free = tonumber(redis.call('GET', global('slots:' .. lane)) or '0') - redis.call('ZCARD', global('leases:' .. lane))
  local want = math.min(free - pending, most, worth(lane, ready, pending))
  if want <= 0 then return found end
  for _, m in ipairs(redis.call('ZRANGE', global('ready:' .. lane), 0, math.min(pending + want, 64) - 1)) do
    if #found >= want then break end
    if not redis.call('ZSCORE', told, m) then
      redis.call('ZADD', told, now + LAPSE, m)
      found[#found + 1] = lane .. ' ' .. m
    end
  end
  return found
end

-- The last thing a call does: write what is ready, and say whom to wake. lanes: further ones to look at, or ''.
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
