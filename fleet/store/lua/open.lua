-- Open a run: its live state exists from here on. Opening twice changes nothing.
-- needs: base
-- args: ns run context order tenant event deadline (milliseconds since 1970, or empty)
-- answers: OPENED, EXISTS
local run, context, order, tenant = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if redis.call('EXISTS', of(run)) == 1 then return {'EXISTS'} end
redis.call(
  'HSET', of(run), ':status', 'running', ':context', context, ':order', order, ':tenant', tenant, ':left', 0, ':opened', now_text
)
redis.call('SADD', global('open:' .. tenant), run)
-- A step of a rebuilt run may have been tried before: its attempts count from 1, so that the first looks for an outcome.
if ARGV[6] == 'run.rebuilt' then redis.call('HSET', of(run), ':tried', 1) end
event(run, ARGV[6], '-', '')
if ARGV[7] ~= '' then redis.call('ZADD', global('deadlines'), ARGV[7], run) end
return {'OPENED'}
