-- The ready sets, one a lane, in the order of claims; and which of them to tell Celery of.
-- needs: base

local orders = {}
local function order_of(run)
  local order = orders[run]
  if not order then
    order = tonumber(redis.call('HGET', of(run), 'order') or '0')
    orders[run] = order
  end
  return order
end

-- Lower comes first: priority, then the submission time less the remaining critical path.
local function make_ready(run, step, st, spec)
  local header = read_header(spec or redis.call('HGET', of(run, 'steps'), step))
  write_state(run, step, st, 'ready')
  redis.call('ZADD', global('ready:' .. header.lane), order_of(run) - header.path, member(run, step))
  return header.lane
end

-- Steps to send a message for: ready and untold ones, best first, no more than there are slots that sleep.
-- A message told of lapses after 2 s, so that one which was lost, or whose worker died, is sent again.
local LAPSE = 2000
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
  local want = math.min(free - pending, ready, most)
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

local function wakes(lanes, most)
  local found = {}
  for lane in string.gmatch(lanes, '[^,]+') do
    for _, m in ipairs(wakes_of(lane, most - #found)) do found[#found + 1] = m end
    if #found >= most then break end
  end
  return found
end
