-- End a run that no commit ended: it was cancelled, or its deadline passed.
-- needs: base ready end
-- args: ns run data
-- answers: ENDED, IGNORED
local ended = end_run(ARGV[2], ARGV[3])
flush()
return {ended and 'ENDED' or 'IGNORED'}
