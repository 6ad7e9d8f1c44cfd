"""Workers die around model calls of a provider that keeps replies: nothing is asked for twice."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleet.client import Fleet
from fleet.core.goal import Goal
from fleet.core.run import RunStatus
from fleet.embedded.fleet import EmbeddedFleet
from fleet.store.sql.record import Record
from tests.acceptance import script as turns
from tests.acceptance.conftest import WAIT
from tests.fleets import running, settings_for
from tests.servers import RedisProcess


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("points")


@pytest.fixture(scope="module")
def keeping(
    redis_server: RedisProcess,
    new_record: Callable[[], str | None],
    script: Path,
    points: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[EmbeddedFleet, Fleet]]:
    """A fleet whose provider keeps replies."""
    settings = settings_for(
        tmp_path_factory.mktemp("keeping"),
        redis_server.url,
        new_record(),
        model_script=script,
        model_store=True,
        crash_at=points,
    )
    with running(settings) as both:
        yield both


@pytest.mark.parametrize(
    "point",
    ["plan.before_effect", "plan.mid_plan_stream", "plan.after_effect", "join.before_effect", "join.after_effect"],
)
def test_no_call_is_issued_again_where_the_provider_keeps_replies(
    keeping: tuple[EmbeddedFleet, Fleet], points: Path, point: str
) -> None:
    """R1, R8: killed after the effect and before its record, the reply is asked back."""
    fleet, client = keeping
    (points / point).touch()
    goal_id = client.submit(Goal(objective=turns.REPLAN)).goal_id
    end = client.result(goal_id, WAIT)
    assert not (points / point).exists(), "the fault did not fire"
    assert (end.status, end.answer) == (RunStatus.SUCCEEDED, "4 letters")
    record = Record.open(fleet.settings.record_url)
    rows = record.ledger.rows(client.status(goal_id).run_id)
    record.close()
    assert [(row.state, row.reissues, row.usage.calls) for row in rows] == [("done", 0, 1)] * 4
