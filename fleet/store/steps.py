"""The worker's side of the live state: claim, commit, park, renew; and what takes steps back from workers that died."""

import json
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from fleet.core.attempt import Attempt
from fleet.core.outcome import Outcome
from fleet.core.run import End
from fleet.store import shapes
from fleet.store.scripts import Scripts
from fleet.store.shapes import Wake

MOST_WAKES = 4
"""Messages that one commit asks for: a slot that wakes wakes the next."""


class Answer(StrEnum):
    """What became of a write. All but the first two say that the writer was late, which is normal."""

    COMMITTED = "COMMITTED"
    PARKED = "PARKED"
    DUPLICATE = "DUPLICATE"
    STALE = "STALE"
    SUPERSEDED = "SUPERSEDED"


class Place(NamedTuple):
    """Where a slot claims: its worker, the lanes it serves (comma separated), and its lease in seconds."""

    worker: str
    lanes: str
    lease: float


class Next(NamedTuple):
    """What a slot does after a write. closed: the run was being cancelled, and nothing of it is open any more."""

    answer: Answer
    more: bool
    closed: bool
    attempt: Attempt | None
    wakes: list[Wake]


class Held(NamedTuple):
    """An attempt that a worker holds, for renewal."""

    run: str
    step: str
    fence: str
    lane: str


class Lost(NamedTuple):
    """An attempt that was taken back. losses: workers that its step has cost, this one included."""

    run: str
    step: str
    fence: str
    losses: int
    worker: str


class Steps:
    """Atomic changes of steps. Every method is one script."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    def claim(self, place: Place, told: Wake | None = None) -> tuple[Attempt | None, list[Wake]]:
        """The best ready step of the place's lanes under a new lease, or None. told: the message that woke the slot."""
        member = f"{told.run} {told.step}" if told else ""
        claim, members = self._scripts.call(
            "claim", place.worker, place.lanes, round(place.lease * 1000), member, MOST_WAKES
        )
        return (shapes.attempt_of(claim) if claim else None), shapes.wakes(members)

    def commit(
        self,
        attempt: Attempt,
        outcome: Outcome,
        place: Place,
        *,
        body: str = "",
        want: bool = True,
        end: End | None = None,
    ) -> Next:
        """Record the outcome once, release what waited for it, end the run if `end` says so, claim the next step.

        body: the outcome as JSON, where the caller has it.
        """
        return _next(self._scripts.call("commit", *_commit(attempt, outcome, place, body, end), int(want), MOST_WAKES))

    def commit_again(
        self,
        attempt: Attempt,
        outcome: Outcome,
        place: Place,
        *,
        body: str = "",
        want: bool = True,
        end: End | None = None,
    ) -> Next:
        """As commit, where nothing was heard of an earlier call: if that was made, its answer is given once more."""
        about = _commit(attempt, outcome, place, body, end)
        return _next(self._scripts.call("commit", *about, int(want), MOST_WAKES, 1))

    def park(
        self, attempt: Attempt, delay: float, reason: str, place: Place, *, retry: bool = True, want: bool = True
    ) -> Next:
        """Let go of the step for `delay` seconds (0: hand it back at once). retry: whether it counts as one."""
        reply = self._scripts.call(
            "park",
            attempt.context.run,
            attempt.step.id,
            attempt.fence,
            round(delay * 1000),
            json.dumps({"reason": reason, "seconds": round(delay, 3)}),
            int(retry),
            place.lanes,
            place.worker,
            round(place.lease * 1000),
            int(want),
            MOST_WAKES,
        )
        return _next(reply)

    def renew(
        self, place: Place, slots: int | None, lifetime: float, held: Sequence[Held]
    ) -> dict[tuple[str, str, str], str]:
        """A heartbeat. slots: how many the worker has (None: only renew). Gives {(run, step, fence): why refused}."""
        reply = self._scripts.call(
            "renew",
            place.worker,
            place.lanes,
            "-" if slots is None else slots,
            round(lifetime * 1000),
            round(place.lease * 1000),
            json.dumps(held),
        )
        return {held[int(reply[i])][:3]: reply[i + 1] for i in range(0, len(reply), 2)}

    def strays(self, place: Place, within: float) -> list[Held]:
        """Attempts that the place's worker holds and whose lease runs out within so many seconds."""
        reply = self._scripts.call("strays", place.worker, place.lanes, round(within * 1000))
        return [Held(*reply[i : i + 4]) for i in range(0, len(reply), 4)]

    def hand_back(self, held: Held, reason: str, place: Place) -> Answer:
        """Make a claimed step ready again at once, which is neither a loss nor a retry."""
        about = json.dumps({"reason": reason, "seconds": 0.0})
        lease = round(place.lease * 1000)
        reply = self._scripts.call(
            "park", *held[:3], 0, about, 0, place.lanes, place.worker, lease, 0, MOST_WAKES
        )  # fmt: skip
        return Answer(reply[0])

    def leave(self, worker: str) -> None:
        """The worker's slots are no more counted."""
        self._scripts.call("leave", worker)

    def reap(
        self, lane: str, losses: int, limit: int = 100, tell: Callable[[list[Lost]], object] = lambda taken: None
    ) -> tuple[int, list[Lost], list[Wake]]:
        """Take back leases that ran out: how many are ready again, and those that cost `losses` workers.

        tell: hears of the attempts whose steps are ready again.
        """
        again, dead, members, taken = self._scripts.call("reap", lane, limit, losses, MOST_WAKES * 4)
        tell(_lost(taken))
        return int(again), _lost(dead), shapes.wakes(members)

    def bury(self, lost: Lost, outcome: Outcome, end: End | None = None) -> Next:
        """Settle a step that took its workers down, once that is on record; end the run if `end` says so."""
        body, about = shapes.json_of(outcome), ended_data(outcome)
        answer, more, closed, members = self._scripts.call(
            "bury",
            lost.run,
            lost.step,
            lost.fence,
            outcome.status,
            body,
            about,
            end_data(end) if end else "",
            MOST_WAKES,
        )
        return Next(Answer(answer), bool(more), bool(closed), None, shapes.wakes(members))

    def due(self, limit: int = 100) -> tuple[int, list[Wake]]:
        """Make ready what timers held: how many timers went off."""
        number, members = self._scripts.call("due", limit, MOST_WAKES * 4)
        return int(number), shapes.wakes(members)

    def cascade(self, run: str) -> tuple[bool, list[Wake]]:
        """Release a further page of children: whether there are more."""
        answer, *members = self._scripts.call("cascade", run, MOST_WAKES)
        return answer == "MORE", shapes.wakes(members)

    def untold(self) -> list[Wake]:
        """Ready steps that no message on its way speaks of, up to the number of sleeping slots."""
        return shapes.wakes(self._scripts.call("sweep", MOST_WAKES * 4))


def _commit(attempt: Attempt, outcome: Outcome, place: Place, body: str, end: End | None) -> tuple[str | int, ...]:
    return (
        attempt.context.run,
        attempt.step.id,
        attempt.fence,
        outcome.status,
        body or shapes.json_of(outcome),
        ended_data(outcome),
        end_data(end) if end else "",
        place.lanes,
        place.worker,
        round(place.lease * 1000),
    )


def _lost(reply: Sequence[Any]) -> list[Lost]:
    fields = (reply[i : i + 5] for i in range(0, len(reply), 5))
    return [Lost(run, step, fence, int(losses), worker) for run, step, fence, losses, worker in fields]


def _next(reply: Sequence[Any]) -> Next:
    answer, more, closed, claim, members = reply
    attempt = shapes.attempt_of(claim) if claim else None
    return Next(Answer(answer), bool(more), bool(closed), attempt, shapes.wakes(members))


def ended_data(outcome: Outcome) -> str:
    """The data of step.ended: no values, which may be big or secret."""
    seconds = round(outcome.seconds, 4)
    if outcome.failure is None:
        return f'{{"status":"{outcome.status.value}","seconds":{seconds}}}'
    failure = {"type": outcome.failure.type, "message": outcome.failure.message[:500]}
    return json.dumps({"status": outcome.status, "seconds": seconds, **failure})


def end_data(end: End) -> str:
    """The data of run.ended."""
    return json.dumps({"status": end.status, "reason": end.reason, "detail": end.detail[:500]})
