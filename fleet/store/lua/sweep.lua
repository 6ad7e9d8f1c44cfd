-- Tell again of ready steps whose message was lost or never sent.
-- needs: base ready
-- args: ns most
-- answers: wake...
return wakes(table.concat(redis.call('SMEMBERS', global('lanes')), ','), tonumber(ARGV[2]))
