"""Runs of many steps: what they came to is read by pages, and prompts show what matters of it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fleet.core.ids import RunId, StepId
from fleet.core.outcome import Artifact, Failure, Outcome, Status
from fleet.core.plan import Plan, Step
from fleet.core.run import EndReason, RunContext, RunStatus
from fleet.core.value import Json
from fleet.engine import collect, history
from fleet.engine.deps import Deps
from fleet.engine.paging import PAGE
from fleet.planning.observations import read_observations, render_rounds
from fleet.store.artifacts import Artifacts

RUN = RunId("r1")
NUMBER = 3000
BAD = ("700", "1500", "2300")


class Counted(Artifacts):
    """Counts what is fetched."""

    fetched = 0

    def get(self, artifact: Artifact) -> bytes:
        self.fetched += 1
        return super().get(artifact)


@pytest.fixture
def asked(deps: Deps, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The number of fields of each read of many."""
    sizes: list[int] = []
    hmget = deps.live.client.hmget

    def noted(name: str, keys: list[str], *more: Any) -> Any:
        sizes.append(len(keys))
        return hmget(name, keys, *more)

    monkeypatch.setattr(deps.live.client, "hmget", noted)
    yield sizes
    assert max(sizes) <= PAGE


def settled(deps: Deps, outcome: Outcome, bad: tuple[str, ...] = ()) -> Plan:
    steps = [Step(id=StepId(str(n)), tool="act") for n in range(NUMBER)]
    failed = Outcome(status=Status.FAILED, failure=Failure(type="broken", message="it broke"))
    deps.live.runs.open(RunContext(run=RUN, goal="g1", tenant="default"), 0.0)
    deps.live.runs.restore(RUN, [(step, failed if step.id in bad else outcome) for step in steps])
    return Plan(steps=tuple(steps))


def test_a_joiner_sees_the_failures_among_thousands_and_how_many_are_not_shown(deps: Deps, asked: list[int]) -> None:
    """R16, R17: it is neither told of every step, nor are those it is not told of looked up."""
    artifacts = deps.artifacts = Counted(deps.settings.data / "artifacts")
    big = Outcome(status=Status.SUCCEEDED, artifact=artifacts.put(json.dumps("much").encode()))
    plan = settled(deps, big, BAD)
    text = render_rounds([history.round_of(plan, RUN, deps)])
    (seen,) = read_observations(text)
    shown = [line for line in seen if "id" in line]
    gaps = [line for line in seen if "omitted" in line]
    assert {line["id"] for line in shown if line["status"] == "error"} == set(BAD)
    assert (shown[0]["id"], shown[-1]["id"]) == ("0", str(NUMBER - 1))
    assert len(shown) + sum(gap["omitted"] for gap in gaps) == NUMBER
    assert all(gap["omitted"] == gap["ok"] for gap in gaps)
    assert artifacts.fetched <= history.SHOWN
    assert len(text) < 130_000
    assert asked


@pytest.mark.parametrize(
    ("bad", "status", "answer"),
    [
        ((), RunStatus.SUCCEEDED, {"steps": NUMBER, "succeeded": NUMBER}),
        (BAD, RunStatus.FAILED, {"steps": NUMBER, "succeeded": NUMBER - len(BAD)}),
    ],
)
def test_the_end_of_a_run_with_thousands_of_last_steps_says_how_many_there_are(
    deps: Deps, asked: list[int], bad: tuple[str, ...], status: RunStatus, answer: Json
) -> None:
    """R16."""
    plan = settled(deps, Outcome(status=Status.SUCCEEDED, value=1), bad)
    end = collect.end_of(plan, RUN, deps)
    assert (end.status, end.answer) == (status, answer)
    assert collect.partial({1: plan}, RUN, deps) == answer
    if bad:
        assert end.reason is EndReason.STEPS_FAILED
        assert end.detail.startswith("3 of 3000 steps failed: step 700: broken: it broke; step 1500")
    assert asked
