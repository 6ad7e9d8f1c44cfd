"""Reads back what a scenario came to, and says whether it is what it would have been without the fault."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from fleet.core.events import EventType
from fleet.core.run import End, EndReason, RunStatus
from fleet.testing import History, check_history
from fleet.testing.history import RunHistory
from tests.chaos.stage import Pursued, Stage
from tests.histories import ASKED, secrets_of

BEGUN = frozenset({EventType.STEP_STARTED, EventType.STEP_ENDED})


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a scenario came to. broken: what was not as promised, in words. recovered: seconds from a fault on.

    takeovers: attempts that were taken back. rebuilt: runs whose live state was made anew. again: attempts beyond one
    a step. reissued: calls that were open at a kill, and made again. in_doubt: writes that were open at a kill, which
    nobody made again. fenced: writes that came late and were refused.
    """

    goals: int
    broken: tuple[str, ...]
    recovered: tuple[float, ...]
    takeovers: int
    rebuilt: int
    again: int
    reissued: int
    in_doubt: int
    fenced: int

    @property
    def median(self) -> float:
        return median(self.recovered) if self.recovered else 0.0

    @property
    def longest(self) -> float:
        return max(self.recovered, default=0.0)


def judge(stage: Stage, recovery: str) -> Found:
    """recovery: `takeover`, `progress`, `rebuilt` (what each fault's recovery is counted to) or empty."""
    stage.settled()
    history = _history(stage)
    ends = {run.run: run.goal.end for run in history.runs}
    doubted = [each for each in stage.goals if _in_doubt(ends[each.handle.run_id])]
    broken = [str(finding) for finding in check_history(history)]
    broken += _wrong(stage, ends)
    broken += [f"{step} has no outcome" for run in history.runs for step in _lost(run)]
    broken += [f"written {times} times: {key}" for key, times in _words(stage)["posted"].items() if times > 1]
    return Found(
        goals=len(stage.goals),
        broken=tuple(broken),
        recovered=tuple(RECOVERIES[recovery](stage, history)),
        takeovers=_told(history, EventType.STEP_LOST),
        rebuilt=_told(history, EventType.REBUILT),
        again=_again(stage),
        reissued=sum(call.reissues for run in history.runs for call in run.calls),
        in_doubt=len(doubted),
        fenced=stage.said("outcome was late"),
    )


def _history(stage: Stage) -> History:
    logs, words = stage.logs(), _words(stage)
    asked = Counter(ASKED.findall(logs)) + words["asked"] + words["posted"]
    runs = [each.handle.run_id for each in stage.goals]
    return History.read(stage.record, runs, asked=asked, secrets=secrets_of(stage.fleet), texts={"logs": logs})


def _told(history: History, kind: EventType) -> int:
    return sum(event.type is kind for run in history.runs for event in run.events)


def _words(stage: Stage) -> dict[str, Counter[str]]:
    """What the tools of this scenario's runs told: by word, how often of each call."""
    mine = {each.handle.run_id for each in stage.goals}
    found: dict[str, Counter[str]] = {word: Counter() for word in ("work", "asked", "gave", "posted")}
    for word, key in stage.lines():
        if key.partition(":")[0] in mine:
            found[word][key] += 1
    return found


def _again(stage: Stage) -> int:
    words = _words(stage)
    return sum(times - 1 for word in ("work", "asked", "posted") for times in words[word].values())


def _wrong(stage: Stage, ends: dict[str, End | None]) -> Iterator[str]:
    killed = any("killed" in fault for fault in stage.faults)
    for each in stage.goals:
        end = ends[each.handle.run_id]
        if not _right(each, end) and not (killed and _in_doubt(end)):
            yield f"goal {each.load.goal.objective} ({each.handle.run_id}) came to {end!r}, not {each.load.answer!r}"


def _right(each: Pursued, end: End | None) -> bool:
    return end is not None and end.status is RunStatus.SUCCEEDED and end.answer == each.load.answer


def _in_doubt(end: End | None) -> bool:
    """A write was open when its worker died: a person decides, so the goal ends in saying so."""
    return end is not None and end.reason is EndReason.STEPS_FAILED and "in_doubt" in end.detail


def _lost(run: RunHistory) -> list[str]:
    """Steps without an outcome, of a run that succeeded: of another, those behind what failed have none."""
    if run.goal.end is None or run.goal.end.status is not RunStatus.SUCCEEDED:
        return []
    return [f"{run.run} {step}" for step in run.steps if step not in run.outcomes]


def _takeovers(stage: Stage, history: History) -> Iterator[float]:
    """Of each step that was taken back: from the last fault before that until it started again."""
    marks = sorted(stage.marks)
    for run in history.runs:
        lost: dict[str, float] = {}
        for event in run.events:
            if event.type is EventType.STEP_LOST:
                lost[event.step] = event.at
            elif event.type is EventType.STEP_STARTED and event.step in lost:
                before = bisect_right(marks, lost.pop(event.step))
                if before:
                    yield event.at - marks[before - 1]


def _progress(stage: Stage, history: History) -> Iterator[float]:
    """Of each fault: until any step started or ended after it."""
    times = sorted(event.at for run in history.runs for event in run.events if event.type in BEGUN)
    for mark in stage.marks:
        after = bisect_right(times, mark)
        if after < len(times):
            yield times[after] - mark


def _rebuilt(stage: Stage, history: History) -> Iterator[float]:
    """Of each run that was rebuilt: from the last fault before that until one of its steps could start again.

    A run that had ended is not built again: only its end is told anew, with the time at which it came.
    """
    marks = sorted(stage.marks)
    for run in history.runs:
        for event, following in pairwise(run.events):
            before = bisect_right(marks, event.at)
            if event.type is EventType.REBUILT and following.type is not EventType.ENDED and before:
                yield event.at - marks[before - 1]


RECOVERIES = {
    "takeover": _takeovers,
    "progress": _progress,
    "rebuilt": _rebuilt,
    "": lambda stage, history: (),
}
