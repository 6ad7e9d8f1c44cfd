-- What every script starts with: the clock, the keys, the epoch, a step's state, and an event.
-- ARGV 1: namespace. Times are milliseconds by Redis's clock.
local ns = ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local epoch = redis.call('GET', ns .. ':epoch')
if not epoch then return redis.error_reply('NOEPOCH the live state has no epoch') end

local function global(name) return ns .. ':' .. name end
local function of(run, part) return ns .. ':run:' .. run .. (part and (':' .. part) or '') end
local function member(run, step) return run .. ' ' .. step end
local function split(m) return string.match(m, '^(%S+) (%S+)$') end

-- A step's state is '<word> <attempts> <losses> <retries> <more>'.
local function parse_state(raw)
  if not raw then return nil end
  local word, attempts, losses, retries, more = string.match(raw, '^(%a+) (%d+) (%d+) (%d+) ?(.*)$')
  return {word = word, attempts = tonumber(attempts), losses = tonumber(losses), retries = tonumber(retries), more = more}
end

local function read_state(run, step) return parse_state(redis.call('HGET', of(run, 'state'), step)) end

local function write_state(run, step, st, word, more)
  st.word = word
  st.more = more or ''
  local raw = word .. ' ' .. st.attempts .. ' ' .. st.losses .. ' ' .. st.retries
  if more then raw = raw .. ' ' .. more end
  redis.call('HSET', of(run, 'state'), step, raw)
end

-- A step's spec is '<lane> <timeout ms> <remaining path ms> <references, comma separated or ->', a newline, and JSON.
local function read_header(spec)
  local lane, timeout, path, refs = string.match(spec, '^(%S+) (%d+) (%d+) (%S+)\n')
  return {lane = lane, timeout = tonumber(timeout), path = tonumber(path), refs = refs}
end

-- Whether a run takes no change any more: it has ended, or was forgotten. Nothing is written to it then, so that no event
-- follows its end, and no key comes back without a lifetime.
local OPEN_RUN = {running = true, asking = true, cancelling = true}
local function is_over(run) return not OPEN_RUN[redis.call('HGET', of(run), 'status')] end

local function event(run, kind, step, data)
  redis.call('XADD', of(run, 'events'), epoch .. '-*', 't', kind, 's', step, 'a', now, 'd', data or '')
end
