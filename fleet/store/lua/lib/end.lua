-- Ending a run: its keys live on for a while, so that watchers see the end; its events are to be filed in SQL.
-- needs: base

local PARTS = {'steps', 'state', 'outcomes', 'children', 'events', 'cascade'}
local function end_run(run, data)
  local status = redis.call('HGET', of(run), 'status')
  if not status or status == 'succeeded' or status == 'failed' or status == 'cancelled' then return false end
  redis.call('HSET', of(run), 'status', cjson.decode(data).status, 'ended', now)
  redis.call('SREM', global('open:' .. redis.call('HGET', of(run), 'tenant')), run)
  redis.call('SREM', global('cancelling'), run)
  redis.call('SREM', global('cascades'), run)
  redis.call('ZREM', global('deadlines'), run)
  redis.call('ZADD', global('ended'), now, run)
  event(run, 'run.ended', '', data)
  return true
end
