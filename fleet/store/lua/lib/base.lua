-- What every call starts with: the clock, the keys, the epoch; and a step's state, a run's header, an event.
-- Times are milliseconds by Redis's clock. What a call has read it remembers, and nothing outlives the call.

local ns, now, epoch
local abouts, states, specs, fresh, lanes_touched
local claimed_own, claimed_lease -- of the step that this call claimed: how long it is expected to take (us), and its lease

-- Begin a call: nil when all is well, else the error to give.
local function begin(namespace)
  ns = namespace
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
  epoch = redis.call('GET', ns .. ':epoch')
  abouts, states, specs, fresh, lanes_touched = {}, {}, {}, {}, {}
  claimed_own, claimed_lease = nil, nil
  if not epoch then return redis.error_reply('NOEPOCH the live state has no epoch') end
end

local function global(name) return ns .. ':' .. name end
local function of(run, part) return ns .. ':run:' .. run .. (part and (':' .. part) or '') end
local function member(run, step) return run .. ' ' .. step end
local function split(m) return string.match(m, '^(%S+) (%S+)$') end

-- The header of a run. Who changes a field in Redis changes it here as well.
local function about(run)
  local found = abouts[run]
  if not found then
    local f = redis.call('HMGET', of(run), 'status', 'order', 'context', 'join', 'tried')
    found = {status = f[1], order = tonumber(f[2] or '0'), context = f[3], join = f[4], tried = tonumber(f[5] or '0')}
    abouts[run] = found
  end
  return found
end

-- Whether a run takes no change any more: it has ended, or was forgotten. Nothing is written to it then, so that no event
-- follows its end, and no key comes back without a lifetime.
local OPEN_RUN = {running = true, asking = true, cancelling = true}
local function is_over(run) return not OPEN_RUN[about(run).status] end
local function takes_steps(run) return about(run).status == 'running' or about(run).status == 'asking' end

-- A step's state is '<word> <attempts> <losses> <retries> <more>'. Of a leased one, more is '<fence> <worker> <deadline>
-- <lane>'; of a waiting one '<pending> <ok> <threshold>', of a loading one that and '<cursor>'; of a parked one when.
local function parse_state(raw)
  if not raw then return nil end
  local word, attempts, losses, retries, more = string.match(raw, '^(%a+) (%d+) (%d+) (%d+) ?(.*)$')
  return {word = word, attempts = tonumber(attempts), losses = tonumber(losses), retries = tonumber(retries), more = more}
end

local function read_state(run, step)
  local m = member(run, step)
  local st = states[m]
  if st == nil then
    st = parse_state(redis.call('HGET', of(run, 'state'), step)) or false
    states[m] = st
  end
  return st or nil
end

local function state_text(st)
  local raw = st.word .. ' ' .. st.attempts .. ' ' .. st.losses .. ' ' .. st.retries
  return st.more ~= '' and (raw .. ' ' .. st.more) or raw
end

local function write_state(run, step, st, word, more)
  st.word = word
  st.more = more or ''
  states[member(run, step)] = st
  redis.call('HSET', of(run, 'state'), step, state_text(st))
end

-- A step's spec is '<lane> <timeout ms> <remaining path ms> <expected us> <references, comma separated or ->', a newline,
-- and JSON.
local function read_spec(run, step)
  local m = member(run, step)
  local spec = specs[m]
  if not spec then
    spec = redis.call('HGET', of(run, 'steps'), step)
    specs[m] = spec
  end
  return spec
end

local function read_header(spec)
  local lane, timeout, path, own, refs = string.match(spec, '^(%S+) (%d+) (%d+) (%d+) (%S+)\n')
  return {lane = lane, timeout = tonumber(timeout), path = tonumber(path), own = tonumber(own), refs = refs}
end

-- Let go of the lease of a leased step.
local function unlease(run, step, st)
  redis.call('ZREM', global('leases:' .. string.match(st.more, '^%S+ %S+ %S+ (%S+)')), member(run, step))
end

local function event(run, kind, step, data)
  redis.call('XADD', of(run, 'events'), epoch .. '-*', 't', kind, 's', step, 'a', now, 'd', data or '')
end

local function touch(lane) lanes_touched[lane] = true end
