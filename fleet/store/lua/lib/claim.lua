-- Claiming the best ready step of the lanes a worker serves.
-- needs: base ready

local function serves(lanes, lane) return string.find(',' .. lanes .. ',', ',' .. lane .. ',', 1, true) ~= nil end

-- Takes the best step of the lanes, be it in a ready set or just made ready by this call: run, step; nil when none is.
local function pop(lanes)
  local pick, pick_at
  for i, f in ipairs(fresh) do
    if (not pick or f.score < pick.score) and serves(lanes, f.lane) then pick, pick_at = f, i end
  end
  local best, best_score, best_lane = nil, pick and pick.score, nil
  for lane in string.gmatch(lanes, '[^,]+') do
    local head = redis.call('ZRANGE', global('ready:' .. lane), 0, 0, 'WITHSCORES')
    if head[1] and (not best_score or tonumber(head[2]) < best_score) then
      best, best_score, best_lane = head[1], tonumber(head[2]), lane
    end
  end
  if best then
    redis.call('ZREM', global('ready:' .. best_lane), best)
    return split(best)
  end
  if not pick then return nil end
  table.remove(fresh, pick_at)
  return pick.run, pick.step
end

-- Values of referred steps travel with the claim while they are few and small; the worker reads the rest.
local REFS, SMALL = 32, 8192
local function referred(run, refs)
  local ids, values = {}, {}
  if refs == '-' then return values end
  for id in string.gmatch(refs, '[^,]+') do ids[#ids + 1] = id end
  if #ids > REFS then return values end
  local found = redis.call('HMGET', of(run, 'outcomes'), unpack(ids))
  for i, id in ipairs(ids) do
    if found[i] and #found[i] <= SMALL then
      values[#values + 1] = id
      values[#values + 1] = found[i]
    end
  end
  return values
end

-- {run, step, fence, attempts, losses, retries, context, spec, referred outcomes}, or {} when nothing is ready.
-- Looks at 16 heads at most: one that is ready no more was cancelled or dropped, and is thrown away.
local HEADS = 16
local function claim(worker, lanes, lease)
  for _ = 1, HEADS do
    local run, step = pop(lanes)
    if not run then return {} end
    local st = read_state(run, step)
    if st and st.word == 'ready' and takes_steps(run) then
      local spec = read_spec(run, step)
      local header = read_header(spec)
      claimed_own, claimed_lease = header.own, lease
      st.attempts = st.attempts + 1
      local fence = epoch .. '.' .. st.attempts
      write_state(run, step, st, 'leased', fence .. ' ' .. worker .. ' ' .. (now + header.timeout) .. ' ' .. header.lane)
      redis.call('ZADD', global('leases:' .. header.lane), now + lease, member(run, step))
      event(run, 'step.started', step, '{"worker":"' .. worker .. '","attempt":' .. st.attempts .. '}')
      return {run, step, fence, st.attempts, st.losses, st.retries, about(run).context, spec, referred(run, header.refs)}
    end
  end
  return {}
end

-- A late writer is told what it is: nil when it holds the lease in a run that is open.
local function refuse(run, st, fence)
  if not st or is_over(run) then return 'SUPERSEDED' end
  if st.word == 'leased' and string.match(st.more, '^(%S+)') == fence then return nil end
  if st.word == 'ready' or st.word == 'leased' or st.word == 'parked' then return 'STALE' end
  return 'DUPLICATE'
end
