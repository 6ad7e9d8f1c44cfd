"""A seeded simulation of a whole fleet in one process: engine and scripts as they are, and a clock of its own."""

import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from types import TracebackType

from fleet.core.goal import Goal
from fleet.core.ids import GoalId
from fleet.core.plan import Plan
from fleet.core.run import End
from fleet.engine import recover, submit
from fleet.engine.deps import Deps
from fleet.engine.submit import Handle
from fleet.errors import FleetFault, StoreUnreachable
from fleet.llm.port import Model
from fleet.llm.select import Models
from fleet.store.artifacts import Artifacts
from fleet.store.shapes import Wake
from fleet.store.sql.inline import InlineDatabase
from fleet.store.sql.record import Record
from fleet.telemetry import Telemetry
from fleet.testing.bench import Bench
from fleet.testing.check import check_history
from fleet.testing.faults import NONE, Faults, Fired
from fleet.testing.history import Finding, History
from fleet.testing.older import Older
from fleet.testing.portal import InlinePortal
from fleet.testing.stage import Actor
from fleet.testing.witness import Witness
from fleet.testing.world import LANE, LATE, Process, World, beat, slot_of, tick
from fleet.tools.registry import Registry
from fleet.tools.tool import Tool

MOMENTS = 100
"""Moments with faults, unless `run` is told otherwise."""
PATIENCE = 20_000
"""Moments without faults in which every goal has to end."""
LOSSES = 1000
"""Workers that a step may cost here: faults kill many, and no step is to blame."""


BUSY, ON, BOTH = 0.8, 0.1, 0.3
"""Chances that an actor has its turn rather than another begins, that time goes on though some process can begin, and
that the second scheduler sweeps at a time at which the first does."""


class NotAsPromised(AssertionError):
    """A simulation came to what must not be. Its text says what, and the seed that shows it again."""


class Simulator:
    """One simulation. Equal seeds, tools and goals give the same decisions, up to the order of Redis's own hashes.

    workers: processes with two slots each. model: plans and joins goals that come without a plan. bench: shared by
    simulations that follow each other; without one a server is started for this one alone.
    """

    def __init__(
        self,
        seed: int,
        tools: Iterable[Tool] = (),
        *,
        model: Model | None = None,
        workers: int = 2,
        bench: Bench | None = None,
    ) -> None:
        self.seed = seed
        self._tools = tuple(tools)
        self._model = model
        self._workers = workers
        self._given = bench
        self._undo = ExitStack()
        self._goals: dict[str, tuple[Goal, Plan | None]] = {}
        self._handles: dict[str, Handle] = {}
        self._messages: list[Wake] = []
        self._numbers: dict[str, int] = {}

    def __enter__(self) -> "Simulator":
        self._bench = self._given or self._undo.enter_context(Bench())
        self._world = World(self.seed, float(int(time.time()) + 1))
        self._bench.memory.clock = self._world.clock
        self._bench.memory.clear()
        self._redis = self._bench.redis(self._world)
        self._undo.callback(self._redis.close)
        self._undo.callback(self._end)
        logger = logging.getLogger("fleet")
        self._undo.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.CRITICAL + 1)  # what fails here is meant to
        self._record = Record(InlineDatabase(self._bench.memory, self._world))
        self._older = Older(self._redis, self._record, self._world)
        slots = self._bench.settings.slots
        self._processes = [self._process("worker", slots) for _ in range(self._workers)]
        self._processes += [self._process("scheduler") for _ in range(2)] + [self._process("producer")]
        recover.ensure_epoch(self._processes[0].deps)
        self._processes[0].deps.live.steps.leave(
            "nobody"
        )  # a server's first script costs further commands: now, not later
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    @property
    def fired(self) -> Fired:
        """How often each fault happened."""
        return dict(self._world.fired)

    @property
    def asked(self) -> Mapping[str, int]:
        """How often each idempotency key went out, to models and to tools that write or cost."""
        return dict(self._world.asked)

    def submit(self, goal: Goal | str, plan: Plan | None = None) -> str:
        """A goal that a producer hands in when the simulation runs, again until it is accepted. Gives its key."""
        wanted = Goal(objective=goal) if isinstance(goal, str) else goal
        key = wanted.key or f"goal-{len(self._goals) + 1}"
        self._goals[key] = wanted.model_copy(update={"key": key}), plan
        return key

    def run(self, faults: Faults = NONE, moments: int = MOMENTS) -> Mapping[str, End]:
        """So many moments with faults, then quiet ones until every goal has ended: the end of each, by its key.

        Raises NotAsPromised for a goal that does not end, and whatever the engine lets through.
        """
        self._world.faults = faults
        for _ in range(moments):
            self._moment()
        self._world.faults = NONE
        self._world.sql_away = 0.0
        for number in range(PATIENCE):
            if number % 8 == 0 and self._is_over():
                return {key: self._end_of(handle) for key, handle in self._handles.items()}
            self._moment()
        raise NotAsPromised(f"seed {self.seed}: after {PATIENCE} quiet moments not ended: {self._open()}")

    def findings(self, secrets: Mapping[str, str] | None = None) -> tuple[Finding, ...]:
        """What the history of all runs holds that was not promised."""
        return check_history(self.history(secrets))

    def history(self, secrets: Mapping[str, str] | None = None) -> History:
        """What is on record of all runs."""
        return History.read(self._record, asked=self._world.asked, secrets=secrets)

    def check(self, secrets: Mapping[str, str] | None = None) -> None:
        """Raises NotAsPromised, with what was found and the seed."""
        if found := self.findings(secrets):
            raise NotAsPromised(f"seed {self.seed}: " + "; ".join(map(str, found)))

    def _process(self, kind: str, slots: int = 0) -> Process:
        number = self._numbers[kind] = self._numbers.get(kind, 0) + 1
        database = InlineDatabase(self._bench.memory, self._world)
        settings = self._bench.settings.model_copy(
            update={"losses": LOSSES, "slice": self._world.chance.choice((0, 60))}
        )
        model = Witness(self._model, self._world) if self._model else None
        deps = Deps(
            settings=settings,
            live=self._redis.live(),
            record=Record(database),
            registry=Registry(self._tools),
            models=Models(planner=model, step=model),
            artifacts=Artifacts(self._bench.path / "artifacts"),
            telemetry=Telemetry(),
            portal=InlinePortal(),
            crash=self._world,
            clock=self._world.clock,
            chance=self._world.jitter,
            sleep=self._world.sleep,
            ulid=self._world.ulid,
            simulated=True,
        )
        return Process(kind, f"{kind}{number}@sim.1", deps, database, slots)

    def _moment(self) -> None:
        """One thing that happens: mostly an actor has a turn, where one can."""
        chance, now = self._world.chance, self._world.clock()
        playable = [a for p in self._processes if p.frozen <= now for a in p.actors if a.until <= now]
        if playable and chance.random() < BUSY:
            self._play(chance.choice(playable))
        elif not self._begin(now) or chance.random() < ON:
            self._advance()
        self._strike()

    def _play(self, actor: Actor) -> None:
        process: Process = actor.owner
        self._world.stage.play(actor)
        process.actors = [each for each in process.actors if not each.done]
        if process.dead:
            self._bury(process)

    def _bury(self, process: Process) -> None:
        """Let the actors of a dead process end, and start another one in its place."""
        for actor in process.actors:
            if actor.runner is not None:
                self._world.stage.play(actor)
        process.actors = []
        place = self._processes.index(process)
        self._processes[place] = self._process(process.kind, process.slots)

    def _receive(self) -> None:
        """What scripts have sent."""
        for wake in self._redis.messages([LANE]):
            if not self._world.fires("lost_message"):
                self._messages += [wake, wake] if self._world.fires("twice") else [wake]

    def _begin(self, now: float) -> bool:
        """Some process begins, if any can: a slot takes a message, a scheduler sweeps, a producer hands in."""
        self._receive()
        able = [process for process in self._processes if process.frozen <= now and self._can_begin(process)]
        busy = [process for process in able if process.kind != "scheduler"]
        if able:
            process = self._world.chance.choice(busy if busy and self._world.chance.random() < BUSY else able)
            acts = {"worker": self._take, "scheduler": self._sweep, "producer": self._hand_in}
            acts[process.kind](process)
        return bool(able)

    def _can_begin(self, process: Process) -> bool:
        if process.kind == "worker":
            return bool(self._messages) and len(process.actors) < process.slots
        if process.kind == "producer":
            return not process.actors and len(self._handles) < len(self._goals)
        return not process.actors and process.swept < self._world.ahead

    def _take(self, process: Process) -> None:
        wake = self._messages.pop(self._world.chance.randrange(len(self._messages)))
        slot = slot_of(process, self._world)
        self._world.spawn(process, lambda: slot.carry(wake))

    def _sweep(self, process: Process) -> None:
        both = self._world.chance.random() < BOTH
        for each in self._processes if not both else (process,):
            each.swept = self._world.ahead
        self._world.spawn(process, lambda: tick(process, self._world))

    def _hand_in(self, process: Process) -> None:
        self._world.spawn(process, lambda: self._submitted(process))

    def _submitted(self, process: Process) -> None:
        for key, (goal, plan) in self._goals.items():
            if key not in self._handles:
                (answer,) = submit.submit([(goal, plan)], process.deps)
                if isinstance(answer, FleetFault):
                    raise answer
                self._handles[key] = answer

    def _advance(self) -> None:
        """Time goes by; who is alive says so, and writes what it had put off."""
        seconds = self._world.chance.choice((1, 1, 2, 5, LATE))
        for process in self._processes:
            if process.frozen <= self._world.clock():
                process.database.flush()
                if process.slots and self._world.chance.random() < 0.8:
                    self._beat(process)
        self._world.ahead += seconds
        self._redis.advance(seconds)

    def _beat(self, process: Process) -> None:
        try:
            beat(process)
        except StoreUnreachable:
            return

    def _strike(self) -> None:
        """Faults of whole parts."""
        world = self._world
        if world.fires("freeze"):
            world.chance.choice(self._processes).frozen = world.clock() + LATE
        if world.fires("flush"):
            self._redis.flush()
        if world.fires("away"):
            world.sql_away = world.clock() + LATE
        self._older.moment()

    def _is_over(self) -> bool:
        """Every goal has ended, its events are filed, and nobody is at anything."""
        if len(self._handles) < len(self._goals) or any(process.actors for process in self._processes):
            return False
        live = self._processes[0].deps.live
        return not self._record.goals.open_runs(limit=1) and live.epoch() is not None and not live.runs.ended(1)

    def _end_of(self, handle: Handle) -> End:
        end = self._record.goals.get(GoalId(handle.goal_id)).end
        assert end is not None  # noqa: S101 - for the type checker: it was looked at
        return end

    def _open(self) -> list[str]:
        return [run for run, _ in self._record.goals.open_runs()]

    def _end(self) -> None:
        for process in self._processes:
            self._world.kill(process)
            for actor in process.actors:
                if actor.runner is not None:
                    self._world.stage.play(actor)
        self._world.stage.close()
