"""The messages that scripts send are those of Celery's own producer, to Celery's own consumer."""

import json
import ssl
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery
from kombu import Consumer
from kombu.transport.virtual import Base64

from fleet.app import make_app, queue_of
from fleet.core.ids import RunId
from fleet.core.run import RunContext
from fleet.engine.deps import Deps
from fleet.store.runs import order
from fleet.store.shapes import Wake
from fleet.store.steps import Place
from tests.engine.fleetlet import a_step, asked, planned
from tests.messages import send
from tests.servers import RedisProcess

OWN = ("id", "root_id", "origin", "correlation_id", "delivery_tag", "reply_to")
"""What is each message's own, or each producer's."""
STEPS = ("a", "1", "plan.1", "join.2", "planner", "join")


@pytest.fixture
def app(redis_server: RedisProcess, deps: Deps) -> Iterator[Celery]:
    made = make_app(redis_server.url, deps.settings.namespace)
    yield made
    made.pool.force_close_all()
    made.close()


def sent_by_script(deps: Deps, step: str) -> str:
    """The message in which a run's only step is told of."""
    deps.live.runs.open(RunContext(run=RunId("r1"), goal="g1", tenant="default"), order(4, 1.0))
    kind: Any = "tool"
    deps.live.runs.add("r1", [a_step(step, kind=kind)])
    if step.startswith("join."):
        assert deps.live.runs.about("r1")["join"] == step
    return taken(deps)


def taken(deps: Deps) -> str:
    queue = f"{deps.live.keys.namespace}:celery:{queue_of('main')}"
    assert deps.live.client.llen(queue) == 1
    return str(deps.live.client.rpop(queue))


def without_what_is_its_own(text: str) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(text)
    encoding = message["properties"].pop("body_encoding", None)
    body = Base64().decode(message["body"]) if encoding else message["body"]
    message["body"] = json.loads(body)
    for part in (message["headers"], message["properties"]):
        for name in OWN:
            part.pop(name, None)
    return message


@pytest.mark.parametrize("step", STEPS)
def test_a_script_writes_what_celerys_producer_would(deps: Deps, app: Celery, step: str) -> None:
    """R6 in part: so that a worker of any release of Celery that reads the one reads the other."""
    deps.live.steps.renew(Place("w1", "main", 30.0), 1, 60, [])
    mine = sent_by_script(deps, step)
    send(app, [Wake("r1", step)])
    assert without_what_is_its_own(mine) == without_what_is_its_own(taken(deps))


def test_celerys_consumer_reads_it(deps: Deps, app: Celery) -> None:
    """R6 in part: decoded, acknowledged, gone."""
    deps.live.steps.renew(Place("w1", "main", 30.0), 4, 60, [])
    run, other = planned(deps, a_step()), asked(deps)
    seen: list[tuple[Any, ...]] = []

    def take(body: Any, message: Any) -> None:
        seen.append((message.headers["task"], message.headers["id"], *body[0]))
        message.ack()

    with (
        app.connection_for_read() as connection,
        Consumer(connection, app.conf.task_queues, callbacks=[take], accept=["json"]),
    ):
        while len(seen) < 2:
            connection.drain_events(timeout=5)
    assert seen == [
        ("fleet.step.v1", f"{run}:a:1", run, "a"),
        ("fleet.plan.v1", f"{other}:plan.1:1", other, "plan.1"),
    ]
    kept = [key for key in deps.live.client.scan_iter(f"{deps.live.keys.namespace}:celery:*") if "unacked" in key]
    assert not kept


def test_what_no_slot_has_taken_goes_back(deps: Deps, app: Celery) -> None:
    """R9: a worker that stops between a message and its slot."""
    send(app, [Wake("r1", "a")])
    with (
        app.connection_for_read() as connection,
        Consumer(connection, app.conf.task_queues, callbacks=[lambda *_: None], accept=["json"]),
    ):
        connection.drain_events(timeout=5)
    assert json.loads(taken(deps))["headers"]["task"] == "fleet.step.v1"


@pytest.mark.parametrize("given", ["rediss://h:6380/2", "rediss://h:6380/2?ssl_cert_reqs=required"])
def test_messages_go_by_tls_where_the_live_state_does(given: str) -> None:
    """And to a server whose certificate was checked."""
    app = make_app(given)
    assert app.connection_for_write().ssl == {"ssl_cert_reqs": ssl.CERT_REQUIRED}
    assert not make_app("redis://h:6380/2").connection_for_write().ssl
