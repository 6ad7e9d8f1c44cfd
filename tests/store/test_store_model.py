"""The scripts against a small model in Python: whatever is called in whatever order, both come to the same."""

import itertools
from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fleet.core.attempt import Attempt
from fleet.core.ids import RunId, StepId
from fleet.core.outcome import Failure, Outcome, Status
from fleet.core.plan import All, AnyOf, JoinPolicy, Quorum, Settled, Step
from fleet.core.run import End, EndReason, RunContext, RunStatus
from fleet.store.live import Live
from fleet.store.runs import order
from fleet.store.steps import Answer, Held, Place
from tests.servers import RedisProcess

LEASE = 10
PLACE = Place("w1", "main", float(LEASE))
GOOD = Outcome(status=Status.SUCCEEDED, value=1)
BAD = Outcome(status=Status.FAILED, failure=Failure(type="no", message="no"))
LOST = Outcome(status=Status.LOST, failure=Failure(type="poison", message="it took workers down"))
END = End(status=RunStatus.FAILED, reason=EndReason.DEADLINE)
LOSSES = 3
POLICIES: list[JoinPolicy] = [All(), All(), AnyOf(), Quorum(k=2), Settled()]
_numbers = itertools.count()


@dataclass
class Known:
    """A step as the model has it. path: what it is ordered by; until: when its lease or timer runs out (seconds)."""

    step: Step
    state: str
    path: int = 1
    attempts: int = 0
    losses: int = 0
    retries: int = 0
    until: int = 0


@dataclass
class Model:
    """A run in dicts. It knows nothing of pages, cursors, budgets or keys."""

    status: str = "running"
    now: int = 0
    steps: dict[str, Known] = field(default_factory=dict)

    @property
    def left(self) -> int:
        return sum(known.state in ("waiting", "ready", "leased", "parked") for known in self.steps.values())

    def add(self, step: Step, path: int) -> None:
        if self.status == "running" and step.id not in self.steps:
            self.steps[step.id] = Known(step, "waiting", path)
            self.decide()

    def decide(self) -> None:
        """Release what may run, and skip what can't any more, until nothing changes."""
        changed = True
        while changed:
            changed = False
            for known in self.steps.values():
                if known.state == "waiting" and (verdict := self.verdict(known.step)):
                    known.state, changed = verdict, True

    def verdict(self, step: Step) -> str:
        """Needs that were dropped stay open for ever."""
        states = [self.steps[need].state if need in self.steps else "waiting" for need in step.needs]
        good = states.count("succeeded")
        pending = sum(state in ("waiting", "ready", "leased", "parked") for state in states)
        match step.join:
            case Settled():
                return "" if pending else "ready"
            case AnyOf():
                wanted = 1
            case Quorum(k=k):
                wanted = k
            case _:
                wanted = len(step.needs)
        if good >= wanted and (wanted or not pending):
            return "ready"
        return "skipped" if wanted and good + pending < wanted else ""

    def settle(self, step: str, state: str) -> None:
        self.steps[step].state = state
        self.decide()

    def best(self) -> str | None:
        """What a claim takes: of the ready steps that with the longest path, then the first by name."""
        ready = [name for name, known in self.steps.items() if known.state == "ready" and self.status == "running"]
        return min(ready, key=lambda name: (-self.steps[name].path, name), default=None)

    def refusal(self, attempt: Attempt) -> Answer | None:
        known = self.steps.get(attempt.step.id)
        if known is None or self.status not in ("running", "cancelling"):
            return Answer.SUPERSEDED
        if known.state == "leased" and known.attempts == attempt.number:
            return None
        return Answer.STALE if known.state in ("ready", "leased", "parked") else Answer.DUPLICATE


class StoreAgainstModel(RuleBasedStateMachine):
    """One run; its clock is the simulated one, so that leases and timers lapse when the machine says so."""

    server: RedisProcess

    def __init__(self) -> None:
        super().__init__()
        self.live = Live.connect(self.server.url, f"m{next(_numbers)}")
        self.live.set_epoch(1)
        self.run = RunId("r1")
        self.model = Model()
        self.attempts: list[Attempt] = []

    def teardown(self) -> None:
        self.live.client.unlink(*self.live.client.scan_iter(f"{self.live.keys.namespace}:*", count=1000))
        self.live.close()

    @initialize()
    def open(self) -> None:
        context = RunContext(run=self.run, goal="g", tenant="default")
        assert self.live.runs.open(context, order(4, 1.0))
        assert not self.live.runs.open(context, order(4, 1.0))

    @rule(data=st.data(), policy=st.sampled_from(POLICIES), path=st.integers(1, 9))
    @precondition(lambda self: self.model.status == "running" and len(self.model.steps) < 12)
    def add(self, data: st.DataObject, policy: JoinPolicy, path: int) -> None:
        known = sorted(self.model.steps)
        needs = data.draw(st.lists(st.sampled_from(known), unique=True, max_size=3)) if known else []
        name = StepId(f"s{next(_numbers)}")
        step = Step(id=name, tool="act", needs=tuple(map(StepId, needs)), join=policy if needs else All())
        for _ in range(2):
            self.live.runs.add(self.run, [step], {name: float(path)})
            self.model.add(step, path)

    @rule()
    def claim(self) -> None:
        best = self.model.best()
        attempt, _ = self.live.steps.claim(PLACE)
        assert (attempt.step.id if attempt else None) == best
        if attempt is not None:
            known = self.model.steps[attempt.step.id]
            known.state, known.attempts, known.until = "leased", known.attempts + 1, self.model.now + LEASE
            assert (attempt.number, attempt.fence) == (known.attempts, f"1.{known.attempts}")
            assert (attempt.losses, attempt.retries) == (known.losses, known.retries)
            self.attempts.append(attempt)

    @rule(data=st.data(), outcome=st.sampled_from([GOOD, GOOD, BAD]), twice=st.booleans())
    @precondition(lambda self: self.attempts)
    def commit(self, data: st.DataObject, outcome: Outcome, twice: bool) -> None:
        """Of any attempt there ever was: in time, late, or for a second time."""
        attempt = data.draw(st.sampled_from(self.attempts))
        for _ in range(1 + twice):
            expected = self.model.refusal(attempt)
            done = self.live.steps.commit(attempt, outcome, PLACE, want=False)
            assert done.answer is (expected or Answer.COMMITTED)
            if expected is None:
                self.model.settle(attempt.step.id, outcome.status.value)

    @rule(data=st.data(), delay=st.sampled_from([0, 3, 20]), retry=st.booleans())
    @precondition(lambda self: self.attempts)
    def park(self, data: st.DataObject, delay: int, retry: bool) -> None:
        attempt = data.draw(st.sampled_from(self.attempts))
        expected = self.model.refusal(attempt)
        done = self.live.steps.park(attempt, float(delay), "later", PLACE, retry=retry, want=False)
        assert done.answer is (expected or Answer.PARKED)
        if expected is None:
            known = self.model.steps[attempt.step.id]
            known.retries += retry
            cancelling = self.model.status == "cancelling"
            known.state = "cancelled" if cancelling else ("parked" if delay else "ready")
            known.until = self.model.now + delay

    def wait(self, seconds: int) -> None:
        self.model.now += seconds
        self.live.client.set(self.live.keys.clock_offset, self.model.now * 1000)

    @rule(seconds=st.sampled_from([0, 2, 4]))
    def due(self, seconds: int) -> None:
        self.wait(seconds)
        self.live.steps.due()
        for known in self.model.steps.values():
            if known.state == "parked" and known.until <= self.model.now and self.model.status == "running":
                known.state = "ready"

    @rule(seconds=st.sampled_from([0, 9, 11]))
    def reap(self, seconds: int) -> None:
        self.wait(seconds)
        again, dead, _ = self.live.steps.reap("main", LOSSES)
        open_ = self.model.status in ("running", "cancelling")
        late = [k for k in self.model.steps.values() if open_ and k.state == "leased" and k.until <= self.model.now]
        poison = {known.step.id for known in late if known.losses + 1 >= LOSSES}
        assert again == len(late) - len(poison)
        assert {lost.step for lost in dead} == poison
        for known in late:
            if known.step.id not in poison:
                known.losses, known.state = known.losses + 1, "ready"
        for lost in dead:
            assert self.live.steps.bury(lost, LOST).answer is Answer.COMMITTED
            self.model.steps[lost.step].losses += 1
            self.model.settle(lost.step, "lost")

    @rule(data=st.data())
    @precondition(lambda self: self.attempts)
    def renew(self, data: st.DataObject) -> None:
        attempt = data.draw(st.sampled_from(self.attempts))
        held = Held(self.run, attempt.step.id, attempt.fence, "main")
        refused = self.live.steps.renew(PLACE, 4, 1000, [held])
        known = self.model.steps.get(attempt.step.id)
        if self.model.refusal(attempt) is None and known is not None and self.model.now < 60:
            known.until = self.model.now + LEASE
            assert list(refused.values()) == (["CANCELLED"] if self.model.status == "cancelling" else [])
        elif self.model.refusal(attempt) is not None:
            assert refused
        elif not refused and known is not None:
            known.until = self.model.now + LEASE

    @rule(data=st.data())
    @precondition(lambda self: self.model.steps and self.model.status == "running")
    def drop(self, data: st.DataObject) -> None:
        """A step, with all that hangs on it."""
        gone = {data.draw(st.sampled_from(sorted(self.model.steps)))}
        for name, known in self.model.steps.items():
            if gone.intersection(known.step.needs):
                gone.add(name)
        open_ = {name for name in gone if self.model.steps[name].state in ("waiting", "ready", "leased", "parked")}
        assert set(self.live.runs.drop(self.run, [StepId(name) for name in sorted(gone)])) == open_
        for name in open_:
            del self.model.steps[name]

    @rule(sure=st.integers(0, 5))
    def cancel(self, sure: int) -> None:
        if sure:
            return
        running = self.live.runs.cancel(self.run)
        if self.model.status not in ("running", "cancelling"):
            assert running is None
            return
        self.model.status = "cancelling"
        for known in self.model.steps.values():
            if known.state in ("waiting", "ready", "parked"):
                known.state = "cancelled"
        assert running == self.model.left

    @rule(sure=st.integers(0, 9))
    def end(self, sure: int) -> None:
        if not sure:
            assert self.live.runs.end(self.run, END) == (self.model.status in ("running", "cancelling"))
            self.model.status = "failed" if self.model.status in ("running", "cancelling") else self.model.status

    @invariant()
    def both_agree(self) -> None:
        if not self.live.runs.about(self.run):
            return
        found = self.live.runs.states(self.run)
        assert {name: tuple(known) for name, known in found.items()} == {
            name: (known.state, known.attempts, known.losses, known.retries) for name, known in self.model.steps.items()
        }
        about = self.live.runs.about(self.run)
        assert (about["status"], int(about["left"])) == (self.model.status, self.model.left)


def test_the_scripts_and_a_model_of_them_come_to_the_same(redis_server: RedisProcess) -> None:
    """R2, R3, R7, R17: states, attempts, losses, retries, answers to late writers, and how many are left."""
    StoreAgainstModel.server = redis_server
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    quick = settings(
        max_examples=100, stateful_step_count=30, deadline=None, suppress_health_check=checks, database=None
    )
    run_state_machine_as_test(StoreAgainstModel, settings=quick)
