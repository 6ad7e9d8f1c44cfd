-- Claiming the best ready step of the lanes a worker serves.
-- needs: base ready

local function serves(lanes, lane)
  return lanes == lane or string.find(',' .. lanes .. ',', ',' .. lane .. ',', 1, true) ~= nil
end

-- The best of the steps that this call made ready, by its place in `fresh`.
local function best_fresh(lanes)
  local pick
  for i, f in ipairs(fresh) do
    if (not pick or f.score < fresh[pick].score) and serves(lanes, f.lane) then pick = i end
  end
  return pick
end

-- The head of the ready sets of several lanes, where it comes before `score` (nil: any): its lane, or nil.
local function best_lane(lanes, score)
  local best
  for lane in string.gmatch(lanes, '[^,]+') do
    local head = redis.call('ZRANGE', global('ready:' .. lane), 0, 0, 'WITHSCORES')
    if not head[1] then
      emptied[lane] = true
    elseif not score or tonumber(head[2]) < score then
      best, score = lane, tonumber(head[2])
    end
  end
  return best
end

-- Takes the best step of the lanes, be it in a ready set or just made ready by this call: run, step; nil when none is.
local function pop(lanes)
  local pick = best_fresh(lanes)
  local lane = lanes
  if pick or string.find(lanes, ',', 1, true) then lane = best_lane(lanes, pick and fresh[pick].score) end
  local head = lane and redis.call('ZPOPMIN', global('ready:' .. lane))
  if head and head[1] then return split(head[1]) end
  if lane then emptied[lane] = true end
  if not pick then return nil end
  local taken = table.remove(fresh, pick)
  return taken.run, taken.step
end

-- Values of referred steps travel with the claim while they are few and small; the worker reads the rest.
local SMALL = 8192
local function referred(run, refs)
  local ids, values = {}, {}
  if refs == '-' then return values end
  for id in string.gmatch(refs, '[^,]+') do ids[#ids + 1] = id end
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
-- Looks at 16 heads at most: one that is ready no more was cancelled or dropped, and is thrown away; so is one of a run
-- that was paused a moment ago, which is put back with the others when it goes on.
local function handed(run, step, st, fence)
  local context, spec = get(run, ':context'), get(run, step .. '/spec')
  return {run, step, fence, st.attempts, st.losses, st.retries, context, spec, referred(run, st.refs)}
end

local HEADS = 16
local function claim(worker, lanes, lease)
  for _ = 1, HEADS do
    local run, step = pop(lanes)
    if not run then return {} end
    fetch(run, {step, step .. '/spec', ':status', ':context'})
    local st = read_step(run, step)
    if st and st.word == 'ready' and takes_steps(run) and not is_paused(run) then
      claimed_own, claimed_lease = tonumber(st.own), lease
      st.attempts = st.attempts + 1
      local fence = epoch .. '.' .. st.attempts
      write_step(run, step, st, 'leased', fence .. ' ' .. worker .. ' ' .. string.format('%.0f', now + st.timeout))
      redis.call('ZADD', global('leases:' .. st.lane), now + lease, member(run, step))
      event(run, 'step.started', step, '{"worker":"' .. worker .. '","attempt":' .. st.attempts .. '}')
      return handed(run, step, st, fence)
    end
  end
  return {}
end

-- Where the writer of an outcome does not hear what it went on with, it asks again. So a settled step's record says by
-- which attempt it was settled, and what that one's slot claimed: '<fence> <step> <its fence> <run, or - for the same>'.
local function remember(run, step, st, fence, claimed)
  local more = fence
  if claimed[1] then more = fence .. ' ' .. claimed[2] .. ' ' .. claimed[3] .. ' ' .. (claimed[1] == run and '-' or claimed[1]) end
  write_step(run, step, st, st.word, more)
end

-- What a slot claimed by an earlier call of which it heard nothing, as far as it still holds it. None of a run that was
-- cancelled or paused meanwhile: it has not begun, and its worker hands it back.
local function recalled(run, st, worker, lease)
  local step, fence, other = string.match(st.more, '^%S+ (%S+) (%S+) (%S+)$')
  if not step then return {} end
  if other ~= '-' then run = other end
  fetch(run, {step, step .. '/spec', ':status', ':context'})
  local next = read_step(run, step)
  if not next or next.word ~= 'leased' or not takes_steps(run) or is_paused(run) then return {} end
  local held, holder = string.match(next.more, '^(%S+) (%S+)')
  if held ~= fence or holder ~= worker then return {} end
  redis.call('ZADD', global('leases:' .. next.lane), now + lease, member(run, step))
  return handed(run, step, next, fence)
end

-- A late writer is told what it is: nil when it holds the lease in a run that is open.
local function refuse(run, st, fence)
  if not st or is_over(run) then return 'SUPERSEDED' end
  if st.word == 'leased' and string.match(st.more, '^(%S+)') == fence then return nil end
  if st.word == 'ready' or st.word == 'held' or st.word == 'leased' or st.word == 'parked' then return 'STALE' end
  return 'DUPLICATE'
end
