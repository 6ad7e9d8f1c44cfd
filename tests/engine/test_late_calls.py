"""Billed calls whose first attempt was given up, and closes them after all."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fleet.core.budget import Usage
from fleet.core.goal import Goal
from fleet.engine import recover, submit
from fleet.engine.calls import LedgeredModel
from fleet.engine.deps import Deps, open_deps
from fleet.llm.port import Message, ModelRequest
from fleet.llm.scripted import ScriptedModel, Turn
from fleet.store.sql.ledger import CallKey, Ledger
from fleet.store.steps import Place
from tests.fleets import settings_for
from tests.servers import RedisProcess

ASKED = ModelRequest(purpose="planner", messages=(Message(role="user", text="Goal: be late"),))
PAID = {"text": "what was paid for"}


class ClosedMeanwhile(Ledger):
    """A schedule: the attempt that was given up closes its call just before it is counted as issued again."""

    def reissue(self, key: CallKey) -> int:
        self.done(key, PAID, Usage(calls=1))
        return super().reissue(key)


@pytest.fixture
def deps(redis_server: RedisProcess, tmp_path: Path) -> Iterator[Deps]:
    with closing(open_deps(settings_for(tmp_path, redis_server.url))) as deps:
        recover.ensure_epoch(deps)
        yield deps


def test_a_call_that_is_closed_while_it_is_taken_over_is_not_issued_again(
    deps: Deps, caplog: pytest.LogCaptureFixture
) -> None:
    """R1: the ledger's answer is given, and nobody asks the model."""
    submit.submit([(Goal(objective="be late"), None)], deps)
    attempt, _ = deps.live.steps.claim(Place("w1", "main", 30.0))
    assert attempt is not None
    key = CallKey(attempt.context.run, attempt.step.id, 0)
    deps.record.ledger.open(key, "model", "scripted", Usage(), "k", "h")
    deps.record.ledger = ClosedMeanwhile(deps.record.db)
    model = ScriptedModel([Turn(purpose="planner", goal="be late", text="asked once more")])
    caplog.set_level("INFO", "fleet.scripted")
    reply = asyncio.run(LedgeredModel(model, attempt, deps).complete(ASKED))
    assert reply.text == "what was paid for"
    assert caplog.messages == []
    assert deps.record.ledger.rows(key.run)[0].reissues == 0
