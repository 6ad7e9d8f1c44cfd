"""The process that beats for a worker: what it renews, what it tells, and when it ends."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import psutil
import pytest
from fleet._apps.tasks.beating import About, Pulse, is_stopped
from fleet._apps.tasks.board import Board
from fleet._apps.tasks.heartbeat import Heartbeat

from fleet.core.attempt import Attempt
from fleet.engine.deps import Deps
from fleet.engine.holding import Hold, Holding
from fleet.store.beats import Beats
from fleet.store.steps import Place
from tests.engine.fleetlet import AT_ONCE, HERE, a_step, claim, planned, unreachable

SHORT = Place("w1", "main", 3.0)


@pytest.fixture
def board() -> Iterator[Board]:
    with closing(Board.make(8)) as board:
        yield board


def about(deps: Deps, board: Board, place: Place = HERE) -> About:
    assert deps.settings.redis_url is not None
    url = deps.settings.redis_url.get_secret_value()
    beats = (place.lease, deps.settings.heartbeat, 10.0)
    return About(url, deps.settings.namespace, place.worker, "main", 8, *beats, board.fd, board.size, os.getpid())


def pulse(
    deps: Deps, board: Board, said: list[tuple[str, ...]], place: Place = HERE, alive: Callable[[], bool] = lambda: True
) -> Pulse:
    told = about(deps, board, place)
    beats = Beats.connect(told.url, told.namespace, 5.0)
    return Pulse(told, board, beats, lambda *words: said.append(words), alive)


def note(board: Board, attempt: Attempt) -> int:
    place = board.put(attempt.context.run, attempt.step.id, attempt.fence, attempt.step.lane)
    assert place is not None
    return place


def leases(deps: Deps) -> dict[str, float]:
    """Seconds until each step's lease runs out."""
    now, micro = deps.live.client.time()
    found = deps.live.client.zrange(deps.live.keys.leases("main"), 0, -1, withscores=True)
    return {member.split(" ")[1]: score / 1000 - now - micro / 1e6 for member, score in found}


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def test_what_is_on_the_board_is_renewed_and_what_is_refused_is_told_once(deps: Deps, board: Board) -> None:
    """R5: an attempt whose lease went to another is told why, and its slot is not offered."""
    planned(deps, a_step("a"), a_step("b"))
    kept, lost = claim(deps, AT_ONCE), claim(deps, AT_ONCE)
    note(board, kept)
    place = note(board, lost)
    deps.live.client.zadd(deps.live.keys.leases("main"), {f"{kept.context.run} {kept.step.id}": 9e15})
    assert deps.live.steps.reap("main", losses=3)[0] == 1
    said: list[tuple[str, ...]] = []
    beating = pulse(deps, board, said)
    beating.beat()
    beating.beat()
    refused = ("refused", lost.context.run, lost.step.id, lost.fence, "STALE")
    assert said == [refused, ("beat",), ("beat",)]
    assert leases(deps)[kept.step.id] == pytest.approx(30.0, abs=2.0)
    slots = {worker.name: worker.slots for worker in deps.live.workers()}
    assert slots["w1"] == 7
    board.wipe(place)
    beating.beat()
    assert {worker.name: worker.slots for worker in deps.live.workers()}["w1"] == 8


def test_a_stopping_worker_has_the_slots_that_it_holds(deps: Deps, board: Board) -> None:
    """R32: its leases are not counted against free slots elsewhere."""
    planned(deps, a_step("a"))
    note(board, claim(deps))
    board.tick(stopping=True)
    pulse(deps, board, []).beat()
    assert [worker.slots for worker in deps.live.workers()] == [1]


def test_a_step_that_was_claimed_just_before_the_lock_was_taken_is_renewed(deps: Deps, board: Board) -> None:
    """R1, R5: its slot waits for the interpreter, and has not noted it; another worker's lease is left alone."""
    planned(deps, a_step("a"), a_step("b"))
    mine = claim(deps, Place("w1", "main", 1.0))
    other = claim(deps, Place("w9", "main", 1.0))
    beating = pulse(deps, board, [])
    board.tick(stopping=False)
    beating.look(0.0)
    beating.beat()
    assert leases(deps)[mine.step.id] < 1.0, "while its interpreter runs a worker looks after its own steps"
    beating.look(1.0)
    beating.beat()
    assert leases(deps)[mine.step.id] > 25.0
    assert leases(deps)[other.step.id] < 1.0


def test_a_redis_that_comes_back_is_told_of(deps: Deps, board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    """R6: the worker then wakes itself for what was not told."""
    said: list[tuple[str, ...]] = []
    beating = pulse(deps, board, said)
    with monkeypatch.context() as away:
        away.setattr(Beats, "renew", unreachable)
        beating.beat()
    beating.beat()
    assert said == [("away", "Redis does not answer"), ("back",)]


def test_a_process_whose_worker_is_dead_renews_nothing(deps: Deps, board: Board) -> None:
    """R5: a dead worker's steps go to others after its lease."""
    planned(deps, a_step("a"))
    attempt = claim(deps, Place("w1", "main", 5.0))
    note(board, attempt)
    pulse(deps, board, [], alive=lambda: False).beat()
    assert leases(deps)[attempt.step.id] < 5.0


def test_a_step_past_its_deadline_is_no_more_renewed_and_ends_a_held_worker(deps: Deps, board: Board) -> None:
    """R5: a step that holds the lock for ever is lost in the end, and takes its worker with it."""
    planned(deps, a_step("a", timeout=0.05), a_step("b"))
    hung, other = claim(deps), claim(deps)
    for attempt in (hung, other):
        note(board, attempt)
    said: list[tuple[str, ...]] = []
    beating = pulse(deps, board, said)
    board.tick(stopping=False)
    beating.look(0.0)
    beating.look(1.0)

    def refused() -> bool:
        beating.beat()
        return bool([words for words in said if words[0] == "refused"])

    until(refused)
    assert ("refused", hung.context.run, hung.step.id, hung.fence, "DEADLINE") in said
    beating.look(9.0)
    assert not beating.stall.hopeless
    beating.look(2.0)
    assert beating.stall.hopeless


def test_a_stopped_process_is_told_from_one_that_runs() -> None:
    """R3: by what the kernel says, not by its silence: an interpreter that is held is silent, too."""
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        assert not is_stopped(child.pid)
        child.send_signal(signal.SIGSTOP)
        until(lambda: is_stopped(child.pid))
        child.send_signal(signal.SIGCONT)
        until(lambda: not is_stopped(child.pid))
    finally:
        child.kill()
        child.wait()
    assert not is_stopped(child.pid)


@pytest.fixture
def beating(deps: Deps) -> Iterator[tuple[Heartbeat, Holding]]:
    """A heartbeat with its process, over a lease of three seconds."""
    board = Board.make(8)
    holding = Holding(board)
    deps.settings = deps.settings.model_copy(update={"lease": SHORT.lease})
    heart = Heartbeat(deps, holding, SHORT, 8, board=board)
    heart.start()
    yield heart, holding
    heart.stop()
    assert heart.pid is None
    assert not deps.live.workers()
    board.close()


def held(deps: Deps, holding: Holding, *names: str) -> list[Hold]:
    planned(deps, *(a_step(name) for name in names))
    return [holding.add(claim(deps, SHORT)) for _ in names]


def test_the_process_is_apart_and_small_and_its_command_shows_no_secret(
    deps: Deps, beating: tuple[Heartbeat, Holding]
) -> None:
    """R38: the URL of Redis goes by a pipe, and no setting is in its environment."""
    heart, _ = beating
    until(lambda: heart.beating)
    process = psutil.Process(heart.pid)
    assert process.ppid() == os.getpid()
    assert "redis://" not in " ".join(process.cmdline())
    assert not [name for name in process.environ() if name.startswith("FLEET_")]
    assert os.getsid(process.pid) == process.pid, "Ctrl-C in the worker's terminal must not reach it"
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    assert process.memory_info().rss < 60_000_000
    assert heart.deaths == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_process_that_dies_or_stops_is_started_again_and_no_lease_is_lost(
    deps: Deps, beating: tuple[Heartbeat, Holding], number: signal.Signals
) -> None:
    """R5: the worker beats itself meanwhile."""
    heart, holding = beating
    until(lambda: heart.beating)
    held(deps, holding, "a", "b", "c")
    first = heart.pid
    assert first is not None
    os.kill(first, number)

    def another() -> bool:
        assert deps.live.steps.reap("main", losses=3)[0] == 0
        return heart.deaths == 1 and heart.beating

    until(another)
    assert heart.pid != first
    assert len(leases(deps)) == 3


def test_what_is_refused_reaches_the_step_and_hung_steps_end_the_worker(deps: Deps) -> None:
    """R5: a quarter of the slots, once their tools had a heartbeat's time to heed it."""
    drained = threading.Event()
    board = Board.make(8)
    holding = Holding(board)
    heart = Heartbeat(deps, holding, HERE, 8, drained.set, board=board)
    heart.start()
    until(lambda: heart.beating)
    holds = held(deps, holding, "a", "b")
    for each in holds:
        member = f"{each.attempt.context.run} {each.attempt.step.id}"
        deps.live.client.zadd(deps.live.keys.leases("main"), {member: 1})
    deps.live.steps.reap("main", losses=3)
    until(lambda: all(each.why == "STALE" for each in holds))
    assert drained.wait(10)
    heart.stop()
    board.close()


def test_a_step_that_the_board_has_no_room_for_is_renewed_by_the_worker(
    deps: Deps, beating: tuple[Heartbeat, Holding]
) -> None:
    """R5: as every step was before there was a board."""
    heart, holding = beating
    until(lambda: heart.beating)
    holds = held(deps, holding, *(f"s{i}" for i in range(9)))
    assert [each.step for each in holding.unnoted()] == [holds[-1].attempt.step.id]
    started = time.monotonic()

    def long_enough() -> bool:
        assert deps.live.steps.reap("main", losses=3)[0] == 0
        return time.monotonic() - started > SHORT.lease + 0.5

    until(long_enough)
    assert len(leases(deps)) == 9


def test_a_worker_that_is_killed_takes_the_process_with_it(deps: Deps) -> None:
    """R5: whatever else has the pipe open."""
    script = (
        "import os, sys, time\n"
        "from fleet._apps.tasks.apart import Apart\n"
        "from fleet._apps.tasks.beating import About\n"
        "from fleet._apps.tasks.board import Board\n"
        "board = Board.make(1)\n"
        "about = About(sys.argv[1], 'none', 'w', 'main', 1, 2.0, 0.5, 9.0, board.fd, 1, os.getpid())\n"
        "apart = Apart(about, dict(os.environ))\n"
        "while not apart.hear(1.0): pass\n"
        "child = os.fork()\n"
        "if child == 0: time.sleep(600)\n"
        "print(apart.pid, child, flush=True)\n"
        "time.sleep(600)\n"
    )
    assert deps.settings.redis_url is not None
    url = deps.settings.redis_url.get_secret_value()
    with subprocess.Popen([sys.executable, "-c", script, url], stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        pid, forked = (int(word) for word in worker.stdout.readline().split())
        assert psutil.pid_exists(pid)
        worker.kill()
        try:
            until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE, 5.0)
        finally:
            os.kill(forked, signal.SIGKILL)
