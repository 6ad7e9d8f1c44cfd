"""Scenarios in which worker processes die, stand still, or are told twice."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.chaos.load import Load, chain, planned
from tests.chaos.rig import Rig
from tests.chaos.scenario import Scenario, Size
from tests.chaos.stage import Stage, until

ALONE = Rig(workers=2, back=4.0)
"""A dead worker is away for so long that only the sweeper can tell of what its message spoke."""


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
        short=Size(goals=4, seconds=5),
        long=Size(goals=16, seconds=60, rig=Rig(workers=3, lease=15.0, heartbeat=3.0, sweep=0.5)),
    ),
)
