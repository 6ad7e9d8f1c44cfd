-- Ending a run: its keys live on for a while, so that watchers see the end; its events are to be filed in SQL.
-- needs: base

local PARTS = {'outcomes', 'events', 'cascade'}
local function end_run(run, data)
  if is_over(run) then return false end
  put(run, ':status', cjson.decode(data).status)
  put(run, ':ended', now_text)
  redis.call('SREM', global('open:' .. get(run, ':tenant')), run)
  redis.call('SREM', global('cancelling'), run)
  redis.call('SREM', global('cascades'), run)
  redis.call('SREM', global('paused'), run)
  redis.call('SREM', global('shifting'), run)
  redis.call('ZREM', global('deadlines'), run)
  redis.call('ZADD', global('ended'), now_text, run)
  event(run, 'run.ended', '-', data)
  redis.call('XADD', global('ends'), 'MAXLEN', '~', 10000, '*', 'run', run)
  redis.call('PEXPIRE', global('ends'), 3600000)
  return true
end

-- Whether a run that is being cancelled has nothing open any more: who sees it ends the run.
local function is_closed(run) return get(run, ':status') == 'cancelling' and tonumber(get(run, ':left')) <= 0 end
