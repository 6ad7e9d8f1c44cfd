"""A batch on which processes die again and again: no answer is lost, and nothing that is done is paid for twice."""

import sys
from collections import Counter
from pathlib import Path

from tests.fleets import running
from tests.histories import findings

EXAMPLE = Path(__file__).parents[2] / "examples" / "parallelqa"
sys.path.insert(0, str(EXAMPLE))

from findings import done_again, issues, reissued, score, takeovers, wrong  # noqa: E402
from kills import Kills  # noqa: E402
from pursue import batch, pursue, settings_of, write_script  # noqa: E402

GOALS = 40
SCALE = 0.25


def test_goals_end_right_though_workers_and_scheduler_are_killed(tmp_path: Path) -> None:
    """R1, R5, R6: a worker or the scheduler dies every 1.5 s, five times in all."""
    write_script(tmp_path / "turns.jsonl", "golden", "paper_totals", SCALE)
    timing = {"lease": 2.0, "heartbeat": 0.5, "sweep": 0.1}
    settings = settings_of(tmp_path / "fleet", tmp_path / "turns.jsonl", 3, 32, **timing)
    goals = batch("golden", SCALE)[:GOALS]
    with running(settings) as (fleet, client):
        with Kills(fleet, 1.5, seed=5, most=5) as kills:
            pursued = pursue(fleet, client, goals, in_flight=16, timeout=100.0)
        restarts = fleet.counts()
        assert findings(fleet) == ()
    witnessed = issues(tmp_path / "fleet" / "logs")
    assert wrong(pursued) == []
    assert kills.by.total() > 0
    assert sum(restarts.values()) > 0
    assert takeovers(pursued) > 0
    rows = [row for run in pursued for row in run.rows]
    assert all(row.state == "done" and witnessed[row.idempotency_key] for row in rows)
    assert done_again(pursued, witnessed) == []
    once_more = Counter({rows[0].idempotency_key: 1})
    assert done_again(pursued, witnessed + once_more) == [rows[0]], "a call issued once more would not show"
    assert sum(row.reissues for row in reissued(pursued)) > 0
    assert score(pursued).attempts >= score(pursued).total
