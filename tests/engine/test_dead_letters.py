"""Dead letters: found, looked at and replayed, by the API and by the command line."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fleet.cli.dead import moment
from fleet.cli.main import main
from fleet.core.budget import Usage
from fleet.core.ids import RunId, StepId
from fleet.core.plan import Hole, Ref, Settled, Step
from fleet.core.run import RunStatus
from fleet.core.value import Json
from fleet.engine import sweep
from fleet.engine.dead import Dead, Replayed
from fleet.engine.deps import Deps
from fleet.errors import BadInput, UnknownLetter, WrongState
from fleet.settings import child_environment
from fleet.store.sql.dead import Wanted
from fleet.store.sql.ledger import CallKey
from fleet.tools.decorator import tool
from tests.engine.fleetlet import AT_ONCE, a_step, claim, ended, planned, slot_of, with_tools

calls: Counter[str] = Counter()


@tool(effect="reads", breaker=None)
def act(name: str, after: Json = None) -> str:
    """Count that it ran."""
    calls[name] += 1
    return name


@pytest.fixture
def fleetlet(deps: Deps) -> Deps:
    calls.clear()
    return with_tools(deps, act)


def step(name: str, *needs: str, **more: Any) -> Step:
    holes = tuple(Hole(at=("after",), ref=Ref(step=StepId(need))) for need in needs)
    args = {"name": name} | ({"after": None} if needs else {})
    return a_step(name, args=args, holes=holes, needs=tuple(StepId(need) for need in needs), **more)


def die(deps: Deps, name: str) -> None:
    """The step takes as many workers down as it may."""
    for _ in range(deps.settings.losses):
        assert claim(deps, AT_ONCE).step.id == name
        sweep.sweep(deps)


def died(deps: Deps) -> tuple[RunId, str]:
    """A run in which `b` is dead: `a` succeeded, `c` waits for `b`. The run, and the letter's id."""
    run = planned(deps, step("a"), step("b", "a"), step("c", "b"), step("d", "a"))
    first = claim(deps)
    assert first.step.id == "a"
    slot = slot_of(deps)
    while first is not None:
        first = slot._run(first, 0.0).attempt  # one step at a time, so that the next can be taken by who dies
    die(deps, "b")
    slot.carry(None)
    assert ended(deps, run).status is RunStatus.FAILED
    return run, f"{run}:b"


def test_a_replayed_step_runs_again_with_what_depends_on_it_and_nothing_else(fleetlet: Deps) -> None:
    """R10, R23: in a further run of the goal, with a fresh count of losses."""
    run, letter = died(fleetlet)
    assert calls == Counter(a=1, d=1)
    (answer,) = Dead(fleetlet).replay([letter])
    assert isinstance(answer, Replayed)
    assert fleetlet.live.runs.states(RunId(answer.run_id))[StepId("b")].losses == 0
    slot_of(fleetlet).carry(None)
    end = ended(fleetlet, RunId(answer.run_id))
    assert (end.status, end.answer) == (RunStatus.SUCCEEDED, {"c": "c", "d": "d"})
    assert calls == Counter(a=1, b=1, c=1, d=1)
    assert fleetlet.record.goals.get(fleetlet.record.goals.of_run(run).goal_id).run_id == answer.run_id


def test_a_step_that_dies_again_after_its_replay_is_a_letter_of_the_new_run(fleetlet: Deps) -> None:
    """R10."""
    _, letter = died(fleetlet)
    dead = Dead(fleetlet)
    (first,) = dead.replay([letter])
    assert isinstance(first, Replayed)
    die(fleetlet, "b")
    slot_of(fleetlet).carry(None)
    (again,) = dead.list()
    assert again.id == f"{first.run_id}:b"
    assert isinstance(dead.replay([again.id])[0], Replayed)


def test_calls_that_a_dead_step_had_paid_for_are_not_paid_again(fleetlet: Deps) -> None:
    """R10, R23."""
    run, letter = died(fleetlet)
    paid = CallKey(run, StepId("b"), 0)
    fleetlet.record.ledger.open(paid, "model", "scripted", Usage(), "k", "h")
    fleetlet.record.ledger.done(paid, {"text": "paid"}, Usage(calls=1))
    (answer,) = Dead(fleetlet).replay([letter])
    assert isinstance(answer, Replayed)
    key = CallKey(RunId(answer.run_id), StepId("b"), 0)
    row = fleetlet.record.ledger.open(key, "model", "scripted", Usage(), "other", "h")
    assert (row.state, row.response) == ("done", {"text": "paid"})


def test_a_letter_is_replayed_once(fleetlet: Deps) -> None:
    """R10: whoever asks again is told when and as what it was."""
    _, letter = died(fleetlet)
    dead = Dead(fleetlet)
    first, unknown, same = dead.replay([letter, "r0:b", letter])
    assert isinstance(first, Replayed)
    assert same is first
    assert isinstance(unknown, UnknownLetter)
    (second,) = dead.replay([letter])
    assert isinstance(second, WrongState)
    assert f"as run {first.run_id}" in str(second)
    assert dead.list() == ()
    assert [each.replay for each in dead.list(replayed=True)] == [first.run_id]


def test_a_letter_of_a_goal_that_has_gone_on_since_is_refused(fleetlet: Deps) -> None:
    """R10: else two runs would pursue one goal from one point."""
    from fleet.engine import branch

    run, letter = died(fleetlet)
    newer = branch.retry(fleetlet.record.goals.of_run(run), "", fleetlet)
    (answer,) = Dead(fleetlet).replay([letter])
    assert isinstance(answer, WrongState)
    assert newer.run_id in str(answer)
    assert [each.id for each in Dead(fleetlet).list()] == [letter]


def test_a_letter_of_a_goal_that_goes_on_waits_for_its_end(fleetlet: Deps) -> None:
    """R10: a join policy may well do without the step."""
    run = planned(fleetlet, step("b"), step("c", join=Settled()))
    die(fleetlet, "b")
    (answer,) = Dead(fleetlet).replay([f"{run}:b"], dry=True)
    assert isinstance(answer, WrongState)
    assert "goes on" in str(answer)


def test_letters_of_one_run_are_replayed_by_one_further_run(fleetlet: Deps) -> None:
    """R10: many by a filter."""
    run = planned(fleetlet, step("b"), step("e"))
    die(fleetlet, "b")
    die(fleetlet, "e")
    slot_of(fleetlet).carry(None)
    dead = Dead(fleetlet)
    ids = [letter.id for letter in dead.list(Wanted(tool="act", cause="workers down"), limit=1)]
    assert ids == [f"{run}:b"]
    answers = dead.replay([letter.id for letter in dead.list(Wanted(tool="act"))])
    assert len({answer.run_id for answer in answers if isinstance(answer, Replayed)}) == 1
    slot_of(fleetlet).carry(None)
    assert calls == Counter(b=1, e=1)


def test_a_letter_shows_its_call_its_workers_and_what_waits_for_it(fleetlet: Deps) -> None:
    """R10."""
    _, letter = died(fleetlet)
    shown = Dead(fleetlet).show(letter)
    assert (shown.objective, shown.status, shown.depending) == ("try", RunStatus.FAILED, ("c",))
    assert shown.call.startswith('act(name="b"')
    assert [loss.worker for loss in shown.lost] == ["w2"] * (fleetlet.settings.losses - 1)
    assert (shown.letter.tool, shown.letter.worker) == ("act", "w2")


@pytest.fixture
def command(fleetlet: Deps, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """`fleet dead ...` on this fleet: its exit code, and what it printed."""
    for name, value in child_environment(fleetlet.settings).items():
        if name.startswith("FLEET_"):
            monkeypatch.setenv(name, value)

    def run(*argv: str) -> tuple[int, str, str]:
        code = main(["dead", *argv])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_the_commands_list_show_and_replay(fleetlet: Deps, command: Any) -> None:
    """R10."""
    _, letter = died(fleetlet)
    code, listed, _ = command("list", "--tool", "act", "--since", "1h", "--tenant", "default", "--cause", "workers")
    assert (code, listed.split()[0]) == (0, letter)
    assert (
        command("list", "--json")[1]
        == json.dumps([each.model_dump(mode="json") for each in Dead(fleetlet).list()], indent=2) + "\n"
    )
    assert "depending c" in command("show", letter)[1]
    assert json.loads(command("show", letter, "--json")[1])["step"]["tool"] == "act"
    assert command("replay", "--all", "--dry-run")[1] == f"{letter}  would be replayed\n"
    code, replayed, _ = command("replay", "--tool", "act", "--json")
    assert code == 0
    (answer,) = json.loads(replayed)
    assert answer["id"] == letter
    assert command("list") == (0, "", "no dead letter fits\n")
    assert answer["run_id"] in command("list", "--all")[1]


def test_the_commands_refuse_in_sentences(fleetlet: Deps, command: Any) -> None:
    """R10: unknown ids, what was replayed, filters that fit nothing, and both or neither of ids and filters."""
    _, letter = died(fleetlet)
    assert command("show", "r0:x")[0] == 3
    assert command("replay", "r0:x")[0] == 3
    assert command("replay", "--tool", "other") == (0, "", "no dead letter fits: nothing is replayed\n")
    assert command("replay")[0] == command("replay", letter, "--all")[0] == 2
    assert command("list", "--since", "soon")[0] == 2
    assert command("replay", letter)[0] == 0
    code, _, said = command("replay", letter)
    assert (code, "was replayed at" in said) == (5, True)
    code, told, _ = command("replay", letter, "r0:x", "--json")
    assert (code, [each["exit_code"] for each in json.loads(told)]) == (5, [5, 3])


def test_since_is_a_time_or_how_long_ago() -> None:
    now = datetime(2026, 11, 30, 12, tzinfo=UTC)
    assert moment("90m", now) == now - timedelta(minutes=90)
    assert moment("2d", now) == now - timedelta(days=2)
    assert moment("2026-11-30T10:00+01:00", now) == datetime(2026, 11, 30, 9, tzinfo=UTC)
    with pytest.raises(BadInput, match="soon"):
        moment("soon", now)
