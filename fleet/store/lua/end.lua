-- End a run that no commit ended: it was cancelled, or its deadline passed.
-- needs: base end
-- args: ns run data
-- answers: ENDED, IGNORED
if end_run(ARGV[2], ARGV[3]) then return {'ENDED'} end
return {'IGNORED'}
