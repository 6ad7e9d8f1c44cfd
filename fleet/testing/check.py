"""Checks the history of runs: what was promised of them, held against what is on record."""

import json
from collections import Counter
from collections.abc import Iterator
from functools import reduce

from fleet.core.budget import Usage
from fleet.core.events import Event, EventType
from fleet.core.ids import RunId, StepId
from fleet.store.sql.events import place
from fleet.testing.early import started_early
from fleet.testing.history import Finding, History, Rule, RunHistory

SHORTEST = 4
"""Characters of a secret that is worth looking for: a shorter one stands everywhere by chance."""


def check_history(history: History) -> tuple[Finding, ...]:
    """Every violation that is found, run by run; empty where all is as promised."""
    found = [finding for run in history.runs for rule in RULES for finding in rule(run)]
    found += [finding for run in history.runs for finding in (*_called_again(run, history), *_leaks(run, history))]
    return (*found, *_leaks_elsewhere(history))


def _ended_once(run: RunHistory) -> Iterator[Finding]:
    end = run.goal.end
    told = [event for event in run.events if event.type is EventType.ENDED]
    if end is None:
        yield _found(Rule.ENDED_ONCE, run, f"it is {run.goal.status.value}")
    if len(told) > 1:
        yield _found(Rule.ENDED_ONCE, run, f"it ended {len(told)} times: {', '.join(event.id for event in told)}")
    if run.events and not told:
        yield _found(Rule.ENDED_ONCE, run, "its events do not tell of an end")
    for event in told:
        if end is not None and event.data.get("status") != end.status:
            said = event.data.get("status")
            yield _found(Rule.ENDED_ONCE, run, f"its events say {said}, the record says {end.status.value}")


def _one_outcome(run: RunHistory) -> Iterator[Finding]:
    """One a step in each epoch; and what events tell is what is on record."""
    ended = [event for event in run.events if event.type is EventType.STEP_ENDED]
    for (epoch, step), times in Counter((_epoch(event), event.step) for event in ended).items():
        if times > 1:
            yield _found(Rule.ONE_OUTCOME, run, f"it ended {times} times in epoch {epoch}", step)
    for event in ended:
        stands, said = run.outcomes.get(StepId(event.step)), event.data.get("status")
        if stands is not None and said not in (stands.status, "superseded"):
            yield _found(
                Rule.ONE_OUTCOME, run, f"event {event.id} says {said}, the record {stands.status.value}", event.step
            )


def _fences_grow(run: RunHistory) -> Iterator[Finding]:
    """An attempt is newer than those before it, and whoever wrote an outcome had started."""
    newest: dict[str, tuple[int, int]] = {}
    for event in run.events:
        if event.type is EventType.STEP_STARTED:
            fence = (_epoch(event), int(str(event.data.get("attempt", 0))))
            if fence <= newest.get(event.step, (0, 0)):
                evidence = f"attempt {_fence(fence)} started after {_fence(newest[event.step])}"
                yield _found(Rule.FENCES_GROW, run, evidence, event.step)
            newest[event.step] = max(fence, newest.get(event.step, (0, 0)))
    for step, wrote in run.fences.items():
        epoch, _, number = wrote.partition(".")
        if step in newest and (int(epoch), int(number)) > newest[step]:
            evidence = f"attempt {wrote} is on record, and the last that started is {_fence(newest[step])}"
            yield _found(Rule.FENCES_GROW, run, evidence, step)


def _needs_first(run: RunHistory) -> Iterator[Finding]:
    for step, why in started_early(run):
        yield _found(Rule.NEEDS_FIRST, run, why, step)


def _no_gap(run: RunHistory) -> Iterator[Finding]:
    """Numbers follow each other within an epoch, and epochs rise, each beginning with what made it."""
    last = (0, 0)
    for event in run.events:
        epoch, number = place(event.id)
        if epoch == last[0] and number != last[1] + 1:
            yield _found(Rule.NO_GAP, run, f"event {event.id} follows {last[0]}-{last[1]}", event.step)
        elif epoch < last[0]:
            yield _found(Rule.NO_GAP, run, f"event {event.id} follows one of epoch {last[0]}", event.step)
        elif epoch > last[0] and not _opens(event, first=last[0] == 0):
            yield _found(Rule.NO_GAP, run, f"epoch {epoch} begins with {event.type.value}", event.step)
        last = (epoch, number)


def _opens(event: Event, *, first: bool) -> bool:
    return event.type is EventType.REBUILT or (first and event.type is EventType.ACCEPTED)


def _nothing_after_end(run: RunHistory) -> Iterator[Finding]:
    over = False
    for event in run.events:
        if over:
            yield _found(Rule.NOTHING_AFTER_END, run, f"event {event.id} is {event.type.value}", event.step)
        over = over or event.type is EventType.ENDED


def _within_budget(run: RunHistory) -> Iterator[Finding]:
    budget, used = run.goal.goal.budget, _sum(call.usage for call in run.calls)
    if budget.tokens is not None and used.tokens > budget.tokens:
        yield _found(Rule.WITHIN_BUDGET, run, f"{used.tokens} tokens of {budget.tokens} were used")
    if budget.money is not None and used.money > budget.money + 1e-9:
        yield _found(Rule.WITHIN_BUDGET, run, f"${used.money:g} of ${budget.money:g} was used")


def _usage_adds_up(run: RunHistory) -> Iterator[Finding]:
    """Of the run: what its calls used, those closed behind its end or not. Of a step: no more than its calls."""
    ended = run.goal.ended
    most = _sum(each.used for each in run.closed)
    least = _sum(each.used for each in run.closed if each.at and ended and each.at < ended)
    if ended is not None and not (_covers(run.goal.usage, least) and _covers(most, run.goal.usage)):
        yield _found(Rule.USAGE_ADDS_UP, run, f"the goal says {run.goal.usage!r}, its calls {least!r} to {most!r}")
    for step, outcome in run.outcomes.items():
        calls = _sum(call.usage for call in run.calls if call.key.step == step)
        if not _covers(calls, outcome.usage):
            yield _found(Rule.USAGE_ADDS_UP, run, f"the step says {outcome.usage!r}, its calls {calls!r}", step)


def _called_again(run: RunHistory, history: History) -> Iterator[Finding]:
    """The ledger counts a try only while a row is not done: what a provider was asked beyond these came after it."""
    for call in run.calls if history.asked is not None else ():
        asked, counted = (history.asked or {}).get(call.idempotency_key, 0), call.attempts + call.reissues
        if asked > counted:
            evidence = f"call {call.idempotency_key} was made {asked} times, and the ledger knows of {counted}"
            yield _found(Rule.NO_CALL_AGAIN, run, evidence, call.key.step)


def _leaks(run: RunHistory, history: History) -> Iterator[Finding]:
    texts = [(text.sink, text.step, text.text) for text in run.texts]
    texts += [(f"event {event.id}", StepId(event.step), event.model_dump_json()) for event in run.events]
    for sink, step, text in texts:
        for name in _secrets_in(text, history):
            yield _found(Rule.NO_SECRET, run, f"the secret {name} stands in {sink}", step)


def _leaks_elsewhere(history: History) -> Iterator[Finding]:
    for sink, text in history.texts.items():
        for name in _secrets_in(text, history):
            yield Finding(rule=Rule.NO_SECRET, run=RunId(""), evidence=f"the secret {name} stands in {sink}")


def _secrets_in(text: str, history: History) -> list[str]:
    """Their names, whether they stand there as they are or as JSON writes them."""
    wanted = {name: value for name, value in history.secrets.items() if len(value) >= SHORTEST}
    return [name for name, value in wanted.items() if value in text or json.dumps(value)[1:-1] in text]


def _found(rule: Rule, run: RunHistory, evidence: str, step: str = "") -> Finding:
    return Finding(rule=rule, run=run.run, step=StepId(step), evidence=evidence)


def _epoch(event: Event) -> int:
    return place(event.id)[0]


def _fence(fence: tuple[int, int]) -> str:
    return f"{fence[0]}.{fence[1]}"


def _sum(usages: Iterator[Usage]) -> Usage:
    return reduce(lambda one, other: one + other, usages, Usage())


def _covers(more: Usage, less: Usage) -> bool:
    whole = all(getattr(more, name) >= getattr(less, name) for name in ("calls", "input_tokens", "output_tokens"))
    return whole and more.money >= less.money - 1e-9


RULES = (
    _ended_once,
    _one_outcome,
    _fences_grow,
    _needs_first,
    _no_gap,
    _nothing_after_end,
    _within_budget,
    _usage_adds_up,
)
"""Those that one run alone can break."""
