-- Tell again of ready steps whose message was lost or never sent; forget messages that lapsed.
-- needs: base ready
-- args: ns most
-- answers: wake...
local lanes = redis.call('SMEMBERS', global('lanes'))
for _, lane in ipairs(lanes) do redis.call('ZREMRANGEBYSCORE', global('told:' .. lane), '-inf', now) end
return wakes(table.concat(lanes, ','), tonumber(ARGV[2]))
