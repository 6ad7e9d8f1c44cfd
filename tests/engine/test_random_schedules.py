"""Random schedules: workers that die, messages that are lost, two sweepers that interleave, drops, replans, cancels,
pauses of which some are left half-way.

Everything runs in one process on a real Redis, in an order that a seed gives. No lease is ever renewed, and each has
run out the moment it is given: so every attempt may be taken for lost while its worker still means to commit it.
"""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from fleet.core.attempt import Attempt
from fleet.core.events import EventType
from fleet.core.ids import RunId, StepId, join_step, plan_step, version_of
from fleet.core.outcome import Failure, Outcome, Status
from fleet.core.plan import All, AnyOf, BestEffort, JoinPolicy, Quorum, Settled, Step
from fleet.core.run import End, EndReason, RunContext, RunStatus
from fleet.store.live import Live
from fleet.store.runs import RunClosed, order
from fleet.store.shapes import Wake
from fleet.store.steps import Answer, Next, Place

SEEDS = 160
ACTS = 60
QUIET = 4000
LOSSES = 3
ENDED = {status.value for status in Status}
FINISHED = End(status=RunStatus.SUCCEEDED, reason=EndReason.FINISHED)
GIVEN_UP = End(status=RunStatus.FAILED, reason=EndReason.JOINER_FAILED)
CANCELLED = End(status=RunStatus.CANCELLED, reason=EndReason.CANCELLED)
LOST = Outcome(status=Status.LOST, failure=Failure(type="poison", message="it took workers down"))


@dataclass
class World:
    """A fleet in one process. committed: the outcome that the store said it took, of each step."""

    live: Live
    chance: random.Random
    runs: list[RunId]
    plans: dict[RunId, list[Step]] = field(default_factory=dict)
    held: list[Attempt] = field(default_factory=list)
    messages: list[Wake] = field(default_factory=list)
    committed: dict[tuple[str, str], Outcome] = field(default_factory=dict)
    dropped: set[tuple[str, str]] = field(default_factory=set)
    unanswered: list[tuple[Attempt, Outcome, Place, End | None]] = field(default_factory=list)
    newest: dict[tuple[str, str], str] = field(default_factory=dict)
    verdicts: dict[tuple[str, int], bool] = field(default_factory=dict)
    sweeps: list[Iterator[None]] = field(default_factory=list)
    acknowledged: set[str] = field(default_factory=set)

    def place(self) -> Place:
        return Place(f"w{self.chance.randrange(4)}", "main", 0.0)

    def hear(self, wakes: list[Wake]) -> None:
        """Half of all messages are lost."""
        self.messages += [wake for wake in wakes if self.chance.random() < 0.5]

    def claim(self) -> None:
        told = self.messages.pop(self.chance.randrange(len(self.messages))) if self.messages else None
        attempt, wakes = self.live.steps.claim(self.place(), told)
        self.hear(wakes)
        if self.chance.random() < 0.9:  # else the answer is lost
            self.take(attempt)

    def take(self, attempt: Attempt | None) -> None:
        if attempt:
            assert attempt.context.run not in self.acknowledged, "a step of a paused run was started"
            self.held.append(attempt)
            self.newest[attempt.context.run, attempt.step.id] = attempt.fence

    def write(self) -> None:
        """Some worker lets go of what it holds: it commits (once or twice), parks, or dies."""
        if not self.held:
            return
        attempt = self.held.pop(self.chance.randrange(len(self.held)))
        what = self.chance.choices(["commit", "twice", "park", "die"], [6, 1, 2, 1])[0]
        if what == "park":
            delay = self.chance.choice([0.0, 0.001])
            self.follow(self.live.steps.park(attempt, delay, "later", self.place(), want=self.chance.random() < 0.5))
        elif what != "die":
            for _ in range(2 if what == "twice" else 1):
                self.commit(attempt)

    def commit(self, attempt: Attempt) -> None:
        step = attempt.step
        good = self.chance.random() < 0.8 or step.kind != "tool"
        failure = None if good else Failure(type="broken", message="no")
        outcome = Outcome(status=Status.SUCCEEDED if good else Status.FAILED, failure=failure, value=attempt.fence)
        if step.kind == "plan":
            self.plan(attempt)
        end = self.decided(attempt) if step.kind == "join" else None
        place, lost = self.place(), self.chance.choices(["nothing", "all", "answer"], [9, 1, 1])[0]
        if lost != "nothing":
            self.unanswered.append((attempt, outcome, place, end))
        if lost != "all":
            done = self.live.steps.commit(attempt, outcome, place, want=self.chance.random() < 0.5, end=end)
            if lost != "answer":
                self.answered(attempt, outcome, done)

    def answered(self, attempt: Attempt, outcome: Outcome, done: Next, *, again: bool = False) -> None:
        if done.answer is Answer.COMMITTED:
            key = attempt.context.run, attempt.step.id
            assert attempt.fence == self.newest[key], "an attempt that lost its lease was heard"
            stands = self.committed.get(key)
            assert stands is None or (again and stands.value == attempt.fence), "two outcomes of one step"
            self.committed[key] = outcome
        self.follow(done)

    def ask_again(self) -> None:
        """A worker that heard nothing of its commit, be it that the answer or all of it was lost, commits again."""
        if self.unanswered:
            attempt, outcome, place, end = self.unanswered.pop(self.chance.randrange(len(self.unanswered)))
            want = self.chance.random() < 0.5
            done = self.live.steps.commit_again(attempt, outcome, place, want=want, end=end)
            self.answered(attempt, outcome, done, again=True)

    def hand_back(self) -> None:
        """A worker hands back what it was given and did not hear of."""
        place = self.place()
        held = {(each.context.run, each.step.id, each.fence) for each in self.held}
        for stray in self.live.steps.strays(place, 60.0):
            if stray[:3] not in held:
                self.live.steps.hand_back(stray, "unheard", place)

    def decided(self, attempt: Attempt) -> End | None:
        """What a joiner says, the same each time it is asked again: a further plan at most twice."""
        run, version = attempt.context.run, version_of(attempt.step.id)
        said = self.verdicts.setdefault((run, version), version > 2 or self.chance.random() < 0.5)
        if said:
            return FINISHED
        plan = Step(id=plan_step(version + 1), kind="plan", needs=(attempt.step.id,))
        self.add(run, [plan, joining(version + 1)])
        return None

    def plan(self, attempt: Attempt) -> None:
        """A planner adds its steps one by one, and then all of them; they are the same when it is asked again."""
        run, prefix = attempt.context.run, f"v{version_of(attempt.step.id)}."
        found = [step for step in self.plans[run] if step.id.startswith(prefix)]
        if not found:
            found = graph(self.chance, prefix, [s.id for s in self.plans[run] if (run, s.id) in self.committed])
            self.plans[run] += found
        wanted = [step for step in found if not self.gone(run, step)]
        for part in ([step] for step in wanted[: self.chance.randint(0, len(wanted))]):
            self.add(run, part)
        self.add(run, wanted)

    def gone(self, run: RunId, step: Step) -> bool:
        return any((run, name) in self.dropped for name in (step.id, *step.needs))

    def add(self, run: RunId, steps: list[Step]) -> None:
        with suppress(RunClosed):
            self.hear(self.live.runs.add(run, steps))

    def follow(self, done: Next) -> None:
        self.hear(done.wakes)
        self.take(done.attempt)
        if done.more and self.chance.random() < 0.5:
            for run in self.live.runs.cascading():
                self.live.steps.cascade(run)

    def sweep(self) -> None:
        """One step of one of two sweeps that are under way."""
        if len(self.sweeps) < 2:
            self.sweeps.append(self.sweeping())
        one = self.chance.randrange(len(self.sweeps))
        try:
            next(self.sweeps[one])
        except StopIteration:
            self.sweeps.pop(one)

    def sweeping(self) -> Iterator[None]:
        live = self.live
        _, lost, wakes = live.steps.reap("main", LOSSES)
        self.hear(wakes)
        yield
        for each in lost:
            end = GIVEN_UP if each.step.startswith("join.") else None
            done = live.steps.bury(each, LOST, end)
            if done.answer is Answer.COMMITTED:
                assert (each.run, each.step) not in self.committed, "buried though it has an outcome"
                self.committed[each.run, each.step] = LOST
            yield
        self.hear(live.steps.due()[1])
        yield
        for run in live.pauses.shifting():
            live.pauses.go_on(run)
            yield
        for run in live.runs.cascading():
            self.hear(live.steps.cascade(run)[1])
            yield
        for run in live.runs.cancelling():
            if live.runs.cancel(run) == 0:
                yield
                live.runs.end(run, CANCELLED)
        self.hear(live.steps.untold())

    def drop(self) -> None:
        """A planner that was asked again does not want a step any more, nor what hangs on it."""
        run = self.chance.choice(self.runs)
        gone = {self.chance.choice(self.plans[run]).id}
        for step in self.plans[run]:
            if gone.intersection(step.needs):
                gone.add(step.id)
        self.dropped |= {(run, step) for step in self.live.runs.drop(run, sorted(gone))}

    def cancel(self) -> None:
        if self.chance.random() < 0.15:
            self.live.runs.cancel(self.chance.choice(self.runs))

    def pause(self) -> None:
        """By a process that may die before it has taken out what is ready."""
        run = self.chance.choice(self.runs)
        if self.chance.random() < 0.3:
            answer = self.live.steps._scripts.call("pause", run)[0]
        else:
            answer = "PAUSED" if self.live.pauses.hold(run) else "CLOSED"
        if answer == "PAUSED":
            self.acknowledged.add(run)

    def resume(self) -> None:
        """By a process that may die half-way, or may have decided before a later pause."""
        run = self.chance.choice(self.runs)
        number = self.live.pauses.number(run)
        if self.chance.random() < 0.2:
            self.live.pauses.hold(run)
        self.acknowledged.discard(run)
        if self.chance.random() < 0.3:
            answer = self.live.steps._scripts.call("resume", run, "running", number)[0]
        else:
            answer = "RESUMED" if self.live.pauses.release(run, "running", number) else "IGNORED"
        if answer == "IGNORED" and self.live.runs.about(run)["status"] == "paused":
            self.acknowledged.add(run)

    def add_again(self) -> None:
        """A process that does not know whether its first try went through."""
        run = self.chance.choice(self.runs)
        self.add(run, [s for s in self.plans[run] if s.id.startswith("v1.") and not self.gone(run, s)])


def joining(version: int) -> Step:
    return Step(id=join_step(version), kind="join")


def graph(chance: random.Random, prefix: str, known: list[StepId]) -> list[Step]:
    """Steps that need some of the earlier ones, by any policy."""
    steps: list[Step] = []
    for number in range(chance.randint(1, 8)):
        before = [*known, *(step.id for step in steps)]
        needs = chance.sample(before, min(len(before), chance.choice([0, 1, 1, 2, 4])))
        policies: list[JoinPolicy] = [All(), All(), AnyOf(), Quorum(k=2), Settled(), BestEffort(within=0.002)]
        join = chance.choice(policies) if needs else All()
        steps.append(Step(id=StepId(f"{prefix}{number}"), tool="act", needs=tuple(needs), join=join))
    return steps


def world(live: Live, seed: int) -> World:
    chance = random.Random(seed)  # noqa: S311
    made = World(live, chance, [RunId(f"r{i}") for i in range(chance.randint(1, 3))])
    live.steps.renew(Place("w0", "main", 0.0), 4, 60, [])
    for run in made.runs:
        made.plans[run] = graph(chance, "v1.", [])
        live.runs.open(RunContext(run=run, goal="g", tenant="default"), order(4, 1.0))
        made.hear(live.runs.add(run, [*made.plans[run], joining(1)]))
    return made


def disturb(made: World) -> None:
    acts = [made.claim, made.write, made.sweep, made.drop, made.cancel, made.add_again, made.pause, made.resume]
    acts += [made.ask_again, made.hand_back]
    for _ in range(ACTS):
        made.chance.choices(acts, [8, 8, 6, 0.4, 1, 1, 1, 2, 2, 2])[0]()


def settle_down(made: World) -> None:
    """No more deaths, drops or cancels: whatever was held is lost, and one worker carries on."""
    live = made.live
    made.held.clear()
    made.acknowledged.clear()
    for run in made.runs:
        live.pauses.release(run, "running", live.pauses.number(run))
    for _ in range(QUIET):
        if all(live.runs.about(run)["status"] in ("succeeded", "failed", "cancelled") for run in made.runs):
            return
        made.sweep()
        made.claim()
        while made.held:
            made.commit(made.held.pop())
    pytest.fail(f"not ended: {[(live.runs.about(run), live.runs.states(run)) for run in made.runs]}")


def check(made: World) -> None:
    """Every run has one end, every step one outcome: the one that was taken; the counts agree."""
    live = made.live
    for run in made.runs:
        states, about = live.runs.states(run), live.runs.about(run)
        outcomes = live.runs.outcomes(run, list(states))
        assert about["left"] == "0", about
        given_up = {step for step in states if step.startswith("join.") and about["status"] == "failed"}
        assert {found.state for step, found in states.items() if step not in given_up} <= ENDED
        assert outcomes.keys() >= states.keys() - given_up
        for step, outcome in outcomes.items():
            assert outcome.status == states[step].state
            assert made.committed.get((run, step), outcome) == outcome
        events = live.streams.read(run, limit=10_000)
        first = int(events[0].id.split("-")[1])
        assert [event.id for event in events] == [f"1-{first + i}" for i in range(len(events))]
        ends = Counter(event.step for event in events if event.type is EventType.STEP_ENDED)
        assert all(ends[step] == 1 for step in outcomes), ends
        assert [event.type for event in events].count(EventType.ENDED) == 1
        assert events[-1].type is EventType.ENDED


def check_nothing_is_left(made: World) -> None:
    """R31: once its events are filed, a run has no key without a lifetime, and no set speaks of it."""
    live = made.live
    for run in made.runs:
        live.runs.forget(run, 60)
    for _ in range(QUIET):
        live.steps.claim(made.place())
        live.steps.reap("main", LOSSES)
        live.steps.due()
        if not any(
            live.client.zcard(f"{live.keys.namespace}:{name}") for name in ("ready:main", "leases:main", "timers")
        ):
            break
    prefix = f"{live.keys.namespace}:"
    standing = {"epoch", "workers", "slots", "lanes", "slots:main", "told:main", "celery:lane.main"}
    left = {key.removeprefix(prefix) for key in live.client.scan_iter(f"{prefix}*", count=1000)}
    stray = {key for key in left - standing if live.client.ttl(prefix + key) < 0}
    assert not stray


@pytest.mark.parametrize("part", range(8))
def test_whatever_the_order_every_run_ends_and_every_step_has_one_outcome(live: Live, part: int) -> None:
    """R2, R3, R5, R7: a seed that fails is named in the message."""
    for seed in range(part, SEEDS, 8):
        live.client.delete(*live.client.scan_iter(f"{live.keys.namespace}:*", count=1000))
        live.set_epoch(1)
        made = world(live, seed)
        try:
            disturb(made)
            settle_down(made)
            check(made)
            check_nothing_is_left(made)
        except Exception as wrong:
            raise AssertionError(f"seed {seed}: {wrong}") from wrong
