"""The processes of a simulated fleet: workers, schedulers and producers, made of the engine's own code."""

import logging
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from ulid import ULID

from fleet.core.attempt import Attempt
from fleet.engine import recover, sweep
from fleet.engine.crash import CrashPoints
from fleet.engine.deps import Deps
from fleet.engine.holding import Holding
from fleet.engine.moves import Result
from fleet.engine.slot import Slot
from fleet.errors import StoreUnreachable
from fleet.store.simulated import Lost
from fleet.store.sql.inline import InlineDatabase
from fleet.store.steps import Place
from fleet.testing.faults import NONE, Crashed, Faults
from fleet.testing.stage import Actor, Stage

LEAD = 3.0
LANE = "main"
LATE = 20
"""Seconds that a call is late, or a worker frozen: more than a lease."""
KEEP = 0.5
"""Chance that an actor keeps its turn at a call of a store."""
log = logging.getLogger("fleet.testing")


@dataclass(eq=False)
class Process:
    """A process. kind: worker, scheduler or producer. dead: nothing of it goes on. swept: when a sweep last began."""

    kind: str
    name: str
    deps: Deps
    database: InlineDatabase
    slots: int = 0
    holding: Holding = field(default_factory=Holding)
    actors: list[Actor] = field(default_factory=list)
    dead: bool = False
    frozen: float = 0.0
    quiet: float = 0.0
    swept: int = -1
    rebuilt: float = float("-inf")

    @property
    def place(self) -> Place:
        return Place(self.name, LANE, self.deps.settings.lease)


class World(CrashPoints):
    """Whose turn it is, what time it is, and what becomes of each call. It is every store's Wire, and hears of every
    named crash point."""

    def __init__(self, seed: int, began: float) -> None:
        super().__init__(None)
        self.chance = random.Random(seed)  # noqa: S311 - a seed gives the same again
        self.stage = Stage()
        self.faults: Faults = NONE
        self.fired: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.sql_away = 0.0
        self.began = began
        self.ahead = 0
        self._ids = 0

    def clock(self) -> float:
        """Seconds since 1970."""
        return self.began + self.ahead

    def jitter(self) -> float:
        """Coarse, so that the few real milliseconds that go by decide nothing."""
        return self.chance.choice((0.5, 0.7, 0.9))

    def ulid(self) -> ULID:
        """In order, whatever the real clock says."""
        self._ids += 1
        stamp = int(self.clock() * 1000).to_bytes(6, "big")
        return ULID(stamp + self._ids.to_bytes(4, "big") + self.chance.randbytes(6))

    def fires(self, name: str) -> bool:
        chance: float = getattr(self.faults, name)
        happened = chance > 0 and self.chance.random() < chance
        self.fired[name] += happened
        return happened

    def before(self, what: str) -> None:
        actor = self._on()
        if actor is None:
            return
        if self.fires("delay"):
            actor.until = self.clock() + LATE
        self._turn(actor)
        self._maybe_kill(actor)
        if what.startswith("sql") and self.clock() < self.sql_away:
            raise Lost("the database is away")
        if self.fires("drop"):
            raise Lost(f"{what}: dropped on its way")

    def after(self, what: str) -> None:
        actor = self._on()
        if actor is None:
            return
        self._maybe_kill(actor)
        if self.fires("lose"):
            raise Lost(f"{what}: its answer was lost")

    def reached(self, kind: str, point: str) -> None:
        """A crash point of the engine; also a moment at which a call goes out, which is counted."""
        actor = self._on()
        if actor is None:
            return
        if (kind, point) == ("tool", "before_effect") and actor.attempt is not None:
            attempt: Attempt = actor.attempt
            self.asked[f"{attempt.context.run}:{attempt.step.id}:0"] += 1
        self._turn(actor)
        self._maybe_kill(actor)

    def sleep(self, seconds: float) -> None:
        """Nobody waits for real."""
        actor = self._on()
        if actor is not None:
            actor.until = self.clock() + seconds
            self.stage.pause()

    def started(self, attempt: Attempt) -> None:
        """Told by a slot."""
        if self.stage.current is not None:
            self.stage.current.attempt = attempt

    def ended(self, attempt: Attempt, result: Result) -> None:
        """Told by a slot."""

    def spawn(self, process: Process, work: Callable[[], object]) -> Actor:
        """Work of a process that takes its turns from now on. That a store is away ends it, and nothing else."""

        def guarded() -> None:
            try:
                work()
            except StoreUnreachable as away:
                process.quiet = self.clock() + process.deps.settings.lease
                log.debug("%s: %s", process.name, away)

        actor = Actor(process, guarded)
        process.actors.append(actor)
        return actor

    def kill(self, process: Process) -> None:
        """Nothing of it goes on, and what it had not written is lost."""
        process.dead = True
        for actor in process.actors:
            actor.doomed = True

    def _on(self) -> Actor | None:
        """Who calls; nobody where the simulator itself does. Raises Crashed for a process that is dead."""
        actor = self.stage.current
        if actor is not None and actor.doomed:
            raise Crashed
        return actor

    def _turn(self, actor: Actor) -> None:
        if actor.until > self.clock() or self.chance.random() > KEEP:
            self.stage.pause()

    def _maybe_kill(self, actor: Actor) -> None:
        if self.fires("kill"):
            self.kill(actor.owner)
            raise Crashed


def slot_of(process: Process, world: World) -> Slot:
    return Slot(process.deps, process.holding, process.place, world)


def beat(process: Process) -> None:
    """A worker's heartbeat."""
    steps, held = process.deps.live.steps, process.holding.held()
    for key, why in steps.renew(process.place, process.slots, process.place.lease, held).items():
        process.holding.cancel(key, why)


def tick(process: Process, world: World) -> None:
    """What a scheduler does while it leads."""
    deps = process.deps
    if not deps.live.lead(process.name, LEAD):
        return
    opened = recover.beat(deps)
    if opened or world.clock() - process.rebuilt > recover.LAUNCH:
        process.rebuilt = world.clock()
        recover.rebuild_missing(deps, young=opened)
        recover.go_on(deps)
    sweep.sweep(deps, reap=world.clock() >= process.quiet)
