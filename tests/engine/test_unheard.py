"""Answers of Redis that are lost on their way: what was claimed by them is neither stuck nor counted as a loss."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pytest
from fleet._apps.tasks.heartbeat import Heartbeat

from fleet.core.ids import RunId, StepId
from fleet.core.plan import Step
from fleet.core.run import RunStatus
from fleet.engine.deps import Deps
from fleet.engine.holding import Holding
from fleet.engine.slot import Slot
from fleet.engine.told import Nobody
from fleet.engine.unheard import Unheard
from fleet.errors import StoreUnreachable
from fleet.store.live import Live
from fleet.store.shapes import LiveStep
from fleet.store.steps import Answer, Place
from fleet.tools.decorator import tool
from tests.engine.fleetlet import DONE, HERE, a_step, claim, ended, planned, with_tools
from tests.proxies import Proxy, _Pair

SHORT = Place("w1", "main", 4.0)
OTHER = Place("w2", "main", 30.0)
calls: Counter[str] = Counter()


class Forgetful(Proxy):
    """Passes every request on, and loses the answer to the next that calls a script, with its connection."""

    script = ""
    lost = 0

    async def _pump(self, pair: _Pair, *, up: bool) -> None:
        try:
            while data := await pair.read(up=up):
                if up and self.script and f"\r\n{self.script}_".encode() in data:
                    pair.lost, self.script = True, ""
                if not up and pair.lost:
                    self.lost += 1
                    pair.reset()
                    return
                await pair.write(data, up=up)
        except OSError:
            pass
        pair.close()


@tool(effect="reads", breaker=None)
def act(name: str) -> str:
    """Count that it ran."""
    calls[name] += 1
    return name


@pytest.fixture
def proxy(deps: Deps) -> Iterator[Forgetful]:
    """Stands between the engine and Redis."""
    calls.clear()
    with_tools(deps, act)
    assert deps.settings.redis_url is not None
    where = urlsplit(deps.settings.redis_url.get_secret_value())
    assert where.port is not None
    with Forgetful(("127.0.0.1", where.port)) as proxy:
        straight = deps.live
        with closing(Live.connect(f"redis://127.0.0.1:{proxy.port}/0", deps.settings.namespace)) as deps.live:
            yield proxy
        deps.live = straight


def steps_of(names: str) -> list[Step]:
    """A chain of steps."""
    return [
        a_step(name, args={"name": name}, needs=tuple(StepId(n) for n in names[at - 1 : at] if at))
        for at, name in enumerate(names)
    ]


def state(deps: Deps, run: RunId, step: str) -> LiveStep:
    return deps.live.runs.states(run)[StepId(step)]


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def test_a_slot_whose_commit_was_not_answered_goes_on_with_what_it_claimed(deps: Deps, proxy: Forgetful) -> None:
    """R2, R5: at once, with the same attempt, and each step runs once."""
    run = planned(deps, *steps_of("abc"))
    proxy.script = "commit"
    Slot(deps, Holding(), HERE, Nobody()).carry(None)
    assert proxy.lost == 1
    assert ended(deps, run).status is RunStatus.SUCCEEDED
    assert calls == Counter(a=1, b=1, c=1)
    assert [state(deps, run, step)[1:3] for step in "abc"] == [(1, 0)] * 3


@pytest.mark.parametrize("step", ["b", "c", "join.1"])
def test_whichever_answer_is_lost_nothing_is_run_twice_or_lost(deps: Deps, proxy: Forgetful, step: str) -> None:
    """R2, R5: also that of the commit which ends the run."""
    run = planned(deps, *steps_of("abc"))
    slot = Slot(deps, Holding(), HERE, Nobody())
    attempt = claim(deps)
    while True:
        if attempt.step.id == step:
            proxy.script = "commit"
        following = slot._run(attempt, time.monotonic() + 60).attempt
        if following is None:
            break
        attempt = following
    assert proxy.lost == 1
    assert ended(deps, run).status is RunStatus.SUCCEEDED
    assert calls == Counter(a=1, b=1, c=1)


def test_an_outcome_that_is_told_again_is_answered_again_while_its_claim_stands(deps: Deps) -> None:
    """R2: the same attempt of the same step, for the same worker."""
    run = planned(deps, *steps_of("ab"), a_step("x", args={"name": "x"}, needs=(StepId("b"),)))
    first = claim(deps)
    done = deps.live.steps.commit(first, DONE, HERE)
    again = deps.live.steps.commit_again(first, DONE, HERE)
    assert done.attempt is not None
    assert again.attempt is not None
    assert (again.answer, again.attempt.step.id, again.attempt.fence) == (Answer.COMMITTED, "b", done.attempt.fence)
    assert deps.live.steps.commit_again(first, DONE, OTHER).attempt is None, "another worker's claim"
    assert deps.live.steps.commit(first, DONE, HERE).answer is Answer.DUPLICATE
    deps.live.steps.park(done.attempt, 0.0, "given back", HERE, retry=False, want=False)
    last = deps.live.steps.commit_again(first, DONE, HERE).attempt
    assert last is not None
    assert (last.step.id, last.fence != done.attempt.fence) == ("b", True)
    assert [event.step for event in deps.live.streams.read(run) if event.type == "step.ended"] == ["a"]


def test_a_first_try_that_never_arrived_is_made_by_the_second(deps: Deps) -> None:
    planned(deps, *steps_of("ab"))
    done = deps.live.steps.commit_again(claim(deps), DONE, HERE)
    assert done.answer is Answer.COMMITTED
    assert done.attempt is not None
    assert done.attempt.step.id == "b"


def test_a_late_attempt_is_told_so_however_often_it_asks(deps: Deps) -> None:
    """R3."""
    planned(deps, *steps_of("a"))
    late = claim(deps)
    deps.live.steps.park(late, 0.0, "taken from it", HERE, want=False)
    now = claim(deps)
    assert deps.live.steps.commit_again(late, DONE, HERE, want=False).answer is Answer.STALE
    deps.live.steps.commit(now, DONE, HERE, want=False)
    assert deps.live.steps.commit_again(late, DONE, HERE, want=False).answer is Answer.DUPLICATE


def test_a_claim_whose_answer_was_lost_is_handed_back_and_is_no_loss(deps: Deps, proxy: Forgetful) -> None:
    """R5, R10: long before the lease has run out."""
    run = planned(deps, *steps_of("a"))
    proxy.script = "claim"
    slot = Slot(deps, Holding(), SHORT, Nobody())
    with pytest.raises(StoreUnreachable):
        slot.carry(None)
    assert state(deps, run, "a").state == "leased"
    unheard = Unheard(deps, Holding(), SHORT)
    until(unheard.look)
    assert state(deps, run, "a") == LiveStep("ready", 1, 0, 0)
    assert not calls


def test_what_a_slot_holds_is_not_handed_back(deps: Deps) -> None:
    """R3: nor what has been renewed or claimed a moment ago, nor what another worker holds."""
    run = planned(deps, *(a_step(name, args={"name": name}) for name in "axyz"))
    holding = Holding()
    holding.add(claim(deps, SHORT))
    claim(deps, OTHER._replace(lease=4.0))
    claim(deps, HERE)
    unheard = Unheard(deps, holding, HERE)
    assert [unheard.look() for _ in range(3)] == [0, 0, 0]
    claim(deps, SHORT)
    assert [unheard.look() for _ in range(3)] == [0, 1, 0]
    assert Counter(each.state for each in deps.live.runs.states(run).values())["leased"] == 3


def test_a_step_that_its_slot_comes_to_hold_after_all_stays_its_own(deps: Deps) -> None:
    planned(deps, *steps_of("a"))
    holding = Holding()
    attempt = claim(deps, SHORT)
    unheard = Unheard(deps, holding, HERE)
    assert unheard.look() == 0
    holding.add(attempt)
    assert unheard.look() == 0


def test_a_worker_hands_such_steps_back_as_it_beats(deps: Deps) -> None:
    """R5, R10."""
    run = planned(deps, *steps_of("a"))
    claim(deps, SHORT)
    heart = Heartbeat(deps, Holding(), SHORT, 4)
    heart.start()
    try:
        until(lambda: state(deps, run, "a").state == "ready")
    finally:
        heart.stop()
    assert state(deps, run, "a").losses == 0
