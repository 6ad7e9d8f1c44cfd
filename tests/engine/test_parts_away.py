"""Goals that come while Redis is away, full, read-only or has lost its disk: accepted, and started once it is back."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis

from fleet.client import Fleet
from fleet.core.goal import Goal
from fleet.core.plan import Plan
from fleet.core.run import RunStatus
from fleet.engine import cancel, recover, submit
from fleet.engine.deps import Deps, open_deps
from fleet.engine.submit import Handle
from fleet.errors import UNTIL_SEEN_TO, NotNow, Overloaded, StoreUnreachable
from tests.engine.fleetlet import HERE, a_step, claim, planned
from tests.fleets import settings_for
from tests.servers import RedisProcess, free_port, redis_binary

Fault = Callable[[RedisProcess, "redis.Redis"], object]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisProcess]:
    folder = tmp_path / "redis"
    folder.mkdir()
    server = RedisProcess(redis_binary("redis"), folder)
    yield server
    server.stop(kill=True)


@pytest.fixture
def deps(server: RedisProcess, tmp_path: Path) -> Iterator[Deps]:
    with closing(open_deps(settings_for(tmp_path, server.url, tools="", builtins=False))) as deps:
        recover.ensure_epoch(deps)
        recover.beat(deps)
        yield deps


@pytest.fixture
def admin(server: RedisProcess) -> Iterator["redis.Redis"]:
    with closing(redis.Redis.from_url(server.url, decode_responses=True)) as admin:
        yield admin


def hand_in(deps: Deps, *names: str) -> list[Handle]:
    items = [(Goal(objective=name), Plan(steps=(a_step(),))) for name in names]
    handles = submit.submit(items, deps)
    assert all(isinstance(handle, Handle) for handle in handles)
    return [handle for handle in handles if isinstance(handle, Handle)]


def lose_disk(server: RedisProcess, admin: "redis.Redis") -> None:
    """The snapshot can't be put in its place, as on a full disk."""
    (server.folder / "dump.rdb").mkdir()
    admin.config_set("save", "3600 1")
    admin.bgsave()
    while admin.info("persistence")["rdb_last_bgsave_status"] == "ok":
        pass


def gain_disk(_: RedisProcess, admin: "redis.Redis") -> None:
    admin.config_set("stop-writes-on-bgsave-error", "no")


FAULTS: dict[str, tuple[Fault, Fault, float]] = {
    "away": (lambda server, _: server.stop(kill=True), lambda server, _: server.start(), NotNow.retry_after),
    "full": (
        lambda _, admin: admin.config_set("maxmemory", 1),
        lambda _, admin: admin.config_set("maxmemory", 0),
        UNTIL_SEEN_TO,
    ),
    "read-only": (
        lambda _, admin: admin.replicaof("127.0.0.1", str(free_port())),
        lambda _, admin: admin.replicaof("NO", "ONE"),
        NotNow.retry_after,
    ),
    "without a disk": (lose_disk, gain_disk, UNTIL_SEEN_TO),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_goals_that_come_while_redis_takes_nothing_start_once_it_does(
    deps: Deps, server: RedisProcess, admin: "redis.Redis", fault: str
) -> None:
    """R6: each once, whatever looks for them how often; what can't be done meanwhile says when to try again."""
    planned(deps, a_step("before"))
    breaks, mends, wait = FAULTS[fault]
    breaks(server, admin)
    handles = hand_in(deps, "one", "two", "three")
    assert [handle.launched for handle in handles] == [False] * 3
    with pytest.raises(StoreUnreachable) as refused:
        deps.live.steps.claim(HERE)
    assert refused.value.retry_after == wait
    mends(server, admin)
    assert [recover.rebuild_missing(deps) for _ in range(2)] == [3, 0]
    assert hand_in(deps, "four")[0].launched
    deps.live.steps.renew(HERE, 8, 60, [])
    found = [claim(deps) for _ in range(5)]
    assert len({attempt.context.run for attempt in found}) == 5
    assert deps.live.steps.claim(HERE)[0] is None


def test_a_goal_that_was_half_launched_when_redis_died_is_launched_whole(
    deps: Deps, server: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R6, R5: its run was open, and had no step yet."""
    adding = deps.live.runs.add

    def dies(*args: object) -> object:
        server.stop(kill=True)
        return adding(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(deps.live.runs, "add", dies)
    (handle,) = hand_in(deps, "one")
    assert not handle.launched
    monkeypatch.undo()
    server.start()
    recover.beat(deps)
    recover.rebuild_missing(deps)
    assert set(deps.live.runs.states(handle.run_id)) == {"a", "join.1"}


def test_a_producer_that_comes_while_redis_is_away_is_served_where_a_fleet_has_worked(
    deps: Deps, server: RedisProcess
) -> None:
    """R6: and refused where none has, since nobody would ever start its goals."""
    server.stop(kill=True)
    with Fleet.connect(deps.settings) as fleet:
        handle = fleet.submit(Goal(objective="late"), plan=Plan(steps=(a_step(),)))
        assert not handle.launched
        elsewhere = deps.settings.model_copy(update={"data": deps.settings.data / "elsewhere"})
        elsewhere.data.mkdir()
        with pytest.raises(StoreUnreachable) as refused:
            Fleet.connect(elsewhere)
        assert refused.value.retry_after > 0
        server.start()
        assert recover.rebuild_missing(deps) == 1
        assert claim(deps).context.run == handle.run_id


def test_a_producer_that_waits_for_an_end_lasts_out_a_restart_of_redis(deps: Deps, server: RedisProcess) -> None:
    """R6: the record tells of the end, whatever Redis does."""
    run = planned(deps, a_step())
    goal = deps.record.goals.of_run(run).goal_id

    def come_back(_: float) -> None:
        server.start()
        with closing(open_deps(deps.settings)) as others:
            cancel.cancel(run, others)

    with Fleet.connect(deps.settings) as fleet:
        server.stop(kill=True)
        fleet._deps.sleep = come_back
        assert fleet.result(goal, timeout=30).status is RunStatus.CANCELLED


def test_a_full_tenant_is_told_when_to_try_again(deps: Deps) -> None:
    """R20."""
    deps.settings = deps.settings.model_copy(update={"open_goals": 1})
    _, refused = submit.submit([(Goal(objective=name), None) for name in "ab"], deps)
    assert isinstance(refused, Overloaded)
    assert (refused.retry_after, refused.exit_code) == (10.0, 8)
