-- Ending a run: its keys live on for a while, so that watchers see the end; its events are to be filed in SQL.
-- needs: base

local PARTS = {'steps', 'state', 'outcomes', 'children', 'events', 'cascade'}
local function end_run(run, data)
  if is_over(run) then return false end
  about(run).status = cjson.decode(data).status
  redis.call('HSET', of(run), 'status', about(run).status, 'ended', now)
  redis.call('SREM', global('open:' .. redis.call('HGET', of(run), 'tenant')), run)
  redis.call('SREM', global('cancelling'), run)
  redis.call('SREM', global('cascades'), run)
  redis.call('ZREM', global('deadlines'), run)
  redis.call('ZADD', global('ended'), now, run)
  event(run, 'run.ended', '', data)
  redis.call('XADD', global('ends'), 'MAXLEN', '~', 10000, '*', 'run', run)
  redis.call('PEXPIRE', global('ends'), 3600000)
  return true
end

-- Whether a run that is being cancelled has nothing open any more: who sees it ends the run.
local function is_closed(run)
  return about(run).status == 'cancelling' and tonumber(redis.call('HGET', of(run), 'left')) <= 0
end
