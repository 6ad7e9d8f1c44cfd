-- What every call starts with: the clock, the epoch, and the runs as this call sees them. Times are milliseconds by
-- Redis's clock. What a call reads of a run it remembers, what it changes is written once, at its end (`flush`), and
-- nothing outlives the call: a command costs more than all that is done with its answer.
--
-- A run's hash holds fields of its own, ':status' and the like; of each step its record, '<step>', the step as JSON,
-- '<step>/spec', and who waits for it, in pages, '<step>/<n>'. A record is written at each change, and so holds nothing
-- that grows with a step's needs. It is two lines: the state, '<word> <attempts> <losses> <retries> <more>'; and the header,
-- '<lane> <timeout ms> <remaining path ms> <expected us> <references, comma separated, or - for none or many>'. In a state,
-- more is '<fence> <worker> <deadline>' of a leased step, '<pending> <ok> <threshold>' of a waiting one,
-- that and '<cursor>' of a loading one, of a parked one when, and of one that an attempt settled what claim.lua remembers.

local ns, now, now_text, epoch
local views, fresh, lanes_touched
local emptied -- lanes whose ready set this call has found empty
local claimed_own, claimed_lease -- of the step that this call claimed: how long it is expected to take (us), and its lease

-- Begin a call: nil when all is well, else the error to give. clock_offset: what a simulated clock is ahead, if it is.
local function begin(namespace)
  ns = namespace
  local live = redis.call('MGET', ns .. ':epoch', ns .. ':clock_offset')
  epoch = live[1]
  if not epoch then return redis.error_reply('NOEPOCH the live state has no epoch') end
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000) + (live[2] and tonumber(live[2]) or 0)
  now_text = string.format('%.0f', now)
  views, fresh, lanes_touched, emptied = {}, {}, {}, {}
  claimed_own, claimed_lease = nil, nil
end

local function global(name) return ns .. ':' .. name end
local function of(run, part) return ns .. ':run:' .. run .. (part and (':' .. part) or '') end
local function member(run, step) return run .. ' ' .. step end
local function split(m) return string.match(m, '^(%S+) (%S+)$') end

-- read: fields as they stand, false where there is none. changed: fields to write. steps: records, parsed. dirty: the
-- steps whose record is to be written.
local function view(run)
  local found = views[run]
  if not found then
    found = {key = of(run), read = {}, changed = {}, steps = {}, dirty = {}}
    views[run] = found
  end
  return found
end

-- Read these fields of a run, as far as they are not known, by one command.
local function fetch(run, fields)
  local known = views[run] ~= nil
  local seen = view(run)
  local read = seen.read
  if known then
    local missing = {}
    for _, field in ipairs(fields) do
      if read[field] == nil then missing[#missing + 1] = field end
    end
    fields = missing
  end
  if not fields[1] then return end
  local found = redis.call('HMGET', seen.key, unpack(fields))
  for i = 1, #fields do read[fields[i]] = found[i] end
end

local function get(run, field)
  local seen = views[run] or view(run)
  local value = seen.read[field]
  if value == nil then
    value = redis.call('HGET', seen.key, field)
    seen.read[field] = value
  end
  return value
end

local function put(run, field, value)
  local seen = view(run)
  seen.read[field], seen.changed[field] = value, value
end

-- Take a field or a step out of a run.
local function forget(run, field)
  local seen = view(run)
  seen.read[field], seen.changed[field], seen.steps[field], seen.dirty[field] = false, nil, nil, nil
  redis.call('HDEL', of(run), field)
end

-- Whether a field of a run is a step's record.
local function is_step(field) return not string.find(field, '[:/]') end

-- Whether a run takes no change any more: it has ended, or was forgotten. Nothing is written to it then, so that no event
-- follows its end, and no key comes back without a lifetime.
local OPEN_RUN = {running = true, asking = true, paused = true, cancelling = true}
local function is_over(run) return not OPEN_RUN[get(run, ':status')] end
-- A paused run takes steps, too, and holds them.
local function takes_steps(run)
  local status = get(run, ':status')
  return status == 'running' or status == 'asking' or status == 'paused'
end
local function is_paused(run) return get(run, ':status') == 'paused' end

-- Count steps of a run that have not ended: how many there are now.
local function count_left(run, change)
  local left = tonumber(get(run, ':left') or '0') + change
  put(run, ':left', string.format('%.0f', left))
  return left
end

-- Numbers stay text until they are reckoned with: to read and to write them costs as much as all the rest.
local RECORD = '^(%a+) (%d+) (%d+) (%d+) ?([^\n]*)\n((%S+) (%d+) (%d+) (%d+) (%S+))$'
local function parse(raw)
  local word, attempts, losses, retries, more, header, lane, timeout, path, own, refs = string.match(raw, RECORD)
  return {
    word = word, attempts = attempts, losses = losses, retries = retries, more = more,
    header = header, lane = lane, timeout = timeout, path = path, own = own, refs = refs,
  }
end

-- A step that is not there yet. spec: header and JSON.
local function new_step(run, step, spec, attempts)
  local header, body = string.match(spec, '^([^\n]*)\n(.*)$')
  local st = parse('loading ' .. attempts .. ' 0 0\n' .. header)
  put(run, step .. '/spec', body)
  view(run).steps[step] = st
  return st
end

local function read_step(run, step)
  local steps = (views[run] or view(run)).steps
  local st = steps[step]
  if st == nil then
    local raw = get(run, step)
    st = raw and parse(raw)
    steps[step] = st
  end
  return st or nil
end

local function write_step(run, step, st, word, more)
  st.word, st.more = word, more or ''
  views[run].dirty[step] = st
end

local function record_text(st)
  return st.word .. ' ' .. st.attempts .. ' ' .. st.losses .. ' ' .. st.retries .. ' ' .. st.more .. '\n' .. st.header
end

-- Let go of the lease of a leased step.
local function unlease(run, step, st) redis.call('ZREM', global('leases:' .. st.lane), member(run, step)) end

-- An event is '<kind> <step or -> <milliseconds> <data>'.
local function event(run, kind, step, data)
  redis.call('XADD', of(run, 'events'), epoch .. '-*', 'e', kind .. ' ' .. step .. ' ' .. now_text .. ' ' .. data)
end

local function touch(lane) lanes_touched[lane] = true end
