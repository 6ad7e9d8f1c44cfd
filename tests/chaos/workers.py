"""Scenarios in which worker processes die, stand still, or are told twice."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil

from tests.chaos.load import Load, chain, planned
from tests.chaos.rig import Rig
from tests.chaos.scenario import Scenario, Size
from tests.chaos.stage import Stage, until

ALONE = Rig(workers=2, back=4.0)
"""A dead worker is away for so long that only the sweeper can tell of what its message spoke."""
PATIENT = Rig(workers=3, lease=15.0, heartbeat=3.0, sweep=0.5)
"""The times of a fleet that nobody has set otherwise."""


def frozen_in_brpop(stage: Stage, size: Size) -> None:
    """Both workers wait; one stands still and gets the message, and is killed with it."""
    for number in range(size.rounds):
        load = planned(chain(2, 50), stage.rigged.effects, f"swallowed {number}")
        until(lambda load=load: _swallowed(stage, load), "a message to be swallowed", 60.0)


def _swallowed(stage: Stage, load: Load) -> bool:
    """Whether a message went to a worker that stood still, and died with it. A wait may end just before it is sent."""
    stage.all_serve()
    victim, other = stage.workers()[:2]
    with _frozen(stage, other):
        until(lambda: _waiting(stage) == 1, "the other worker's wait to end")
        with _frozen(stage, victim):
            stage.submit([load])
            swallowed = stage.queued() == 0
            if swallowed:
                stage.kill(victim)
    stage.faults["messages swallowed"] += swallowed
    stage.settled()
    return swallowed


@contextmanager
def _frozen(stage: Stage, name: str) -> Iterator[None]:
    stage.freeze(name)
    try:
        yield
    finally:
        if name in stage.workers():
            stage.thaw(name)


def _waiting(stage: Stage) -> int:
    """Clients that wait for a message at the moment."""
    with stage.server() as client:
        return sum(each["cmd"] == "brpop" and "b" in each["flags"] for each in client.client_list())


def killed_again_and_again(stage: Stage, size: Size) -> None:
    with stage.under_load(size.goals):
        left = size.seconds
        while left > 0:
            pause = stage.chance.uniform(2, 4)
            stage.pause(pause)
            left -= pause
            stage.kill(stage.chance.choice(stage.workers()))


def beating_killed(stage: Stage, size: Size) -> None:
    """Steps of more than a lease are under way; the process that renews them is killed, and another takes its place."""
    ms = round(stage.rigged.rig.lease * 1500)
    stage.submit([planned(chain(size.rounds, ms), stage.rigged.effects, f"long {n}") for n in range(size.goals)])
    for number in range(size.rounds):
        until(lambda number=number: stage.begun(stage.goals) >= size.goals * number + 1, "a long step to start")
        for name in stage.workers():
            before = until_found(lambda name=name: _beating(stage, name), "a process that beats")
            before.kill()
            stage.mark("beating process killed")
            until(lambda name=name, before=before: _beating(stage, name) not in (None, before), "another that beats")


def until_found(look: Callable[[], psutil.Process | None], what: str) -> psutil.Process:
    until(lambda: look() is not None, what)
    found = look()
    assert found is not None
    return found


def _beating(stage: Stage, worker: str) -> psutil.Process | None:
    """The process that beats for a worker, while there is one."""
    children = psutil.Process(stage.fleet.pids()[worker]).children()
    return next((child for child in children if any("beating" in word for word in _command(child))), None)


def _command(process: psutil.Process) -> list[str]:
    try:
        return [] if process.status() == psutil.STATUS_ZOMBIE else process.cmdline()
    except psutil.NoSuchProcess:
        return []


def killed_after_effect(stage: Stage, size: Size) -> None:
    """A tool that reads, one that bills and one that writes each lose their worker with their effect behind them."""
    for number in range(size.rounds):
        for tool in ("work", "bill", "post"):
            stage.all_serve()
            with stage.crash("tool.after_effect"):
                stage.submit([planned(chain(2, 50, tool), stage.rigged.effects, f"{tool} {number}")])
            stage.settled()
    if size.goals:
        stage.all_serve()
        with stage.crash("plan.after_effect"):
            stage.some(size.goals, "sum")


def killed_after_commit(stage: Stage, size: Size) -> None:
    """The outcome stands when its worker dies; every message of the goal comes again."""
    for number in range(size.rounds):
        with stage.crash("tool.after_commit"):
            goals = stage.submit([planned(chain(3, 50, "bill"), stage.rigged.effects, f"committed {number}")])
        stage.tell_again(goals, 2)
        stage.settled()
        stage.all_serve()
        stage.tell_again(goals, 2)
    stage.some(1)


def frozen_beyond_lease(stage: Stage, size: Size) -> None:
    """A worker stands still with its slots full; others finish its steps, and then it wakes."""
    for number in range(size.rounds):
        stage.all_serve()
        slots = stage.rigged.rig.workers * stage.rigged.rig.slots
        loads = [planned(chain(2, 800), stage.rigged.effects, f"held {number} {n}") for n in range(slots)]
        goals = stage.submit(loads)
        until(lambda goals=goals: stage.begun(goals) >= len(goals), "all slots to be full")
        late = stage.said("outcome was late")
        name = stage.chance.choice(stage.workers())
        with _frozen(stage, name):
            stage.settled()
        until(lambda late=late: stage.said("outcome was late") > late, "the late outcomes to be refused")


def told_again(stage: Stage, size: Size) -> None:
    """Every message comes again, twice: while the first runs, and after the goal has ended."""
    loads = [planned(chain(2, 500), stage.rigged.effects, f"told {n}") for n in range(size.goals)]
    goals = stage.submit(loads)
    until(lambda: stage.begun(goals) >= len(goals), "the first steps to start")
    stage.tell_again(goals, 2)
    stage.settled()
    stage.tell_again(goals, 2)
    stage.some(1)


WORKERS = (
    Scenario(
        number=1,
        name="worker frozen in BRPOP, a message sent, kill -9",
        play=frozen_in_brpop,
        fired=("messages swallowed", "worker killed"),
        recovery="progress",
        short=Size(rounds=1, rig=ALONE),
        long=Size(rounds=10, rig=ALONE),
    ),
    Scenario(
        number=2,
        name="kill -9 of a worker every 2 to 4 s",
        play=killed_again_and_again,
        fired=("worker killed", "takeovers"),
        recovery="takeover",
        short=Size(goals=3, seconds=4),
        long=Size(goals=16, seconds=60, rig=PATIENT),
    ),
    Scenario(
        number=3,
        name="pool child killed: slots are threads, so the process that beats for a worker",
        play=beating_killed,
        fired=("beating process killed",),
        never=("takeovers", "attempts again"),
        short=Size(goals=4, rounds=1),
        long=Size(goals=16, rounds=5),
    ),
    Scenario(
        number=4,
        name="killed after an effect, before the journal",
        play=killed_after_effect,
        fired=("killed after effect", "takeovers", "attempts again", "calls again", "writes in doubt"),
        recovery="takeover",
        short=Size(goals=0, rounds=1),
        long=Size(goals=8, rounds=5),
    ),
    Scenario(
        number=5,
        name="killed after the commit, and the same message sent again",
        play=killed_after_commit,
        fired=("killed after commit", "redeliveries"),
        never=("attempts again", "calls again"),
        recovery="takeover",
        short=Size(rounds=1),
        long=Size(rounds=10),
    ),
    Scenario(
        number=6,
        name="SIGSTOP beyond the lease, takeover, SIGCONT",
        play=frozen_beyond_lease,
        fired=("worker frozen", "takeovers", "fenced"),
        recovery="takeover",
        short=Size(rounds=1),
        long=Size(rounds=2, rig=PATIENT),
    ),
    Scenario(
        number=7,
        name="the same message sent again by hand, while the first runs and after it ended",
        play=told_again,
        fired=("redeliveries",),
        never=("takeovers", "attempts again"),
        short=Size(goals=8),
        long=Size(goals=200),
    ),
)
