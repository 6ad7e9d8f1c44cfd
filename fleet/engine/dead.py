"""Dead letters for people: listed, looked at, and replayed once what took the workers down has been mended."""

from collections.abc import Iterator, Sequence

from fleet.core.events import Event, EventType
from fleet.core.ids import GoalId, RunId, StepId
from fleet.core.plan import Step
from fleet.core.run import RunStatus
from fleet.core.value import Value
from fleet.engine import branch
from fleet.engine.deps import Deps
from fleet.engine.past import Past
from fleet.errors import FleetFault, UnknownLetter, WrongState
from fleet.store.sql.dead import ANY, DeadLetter, Wanted

PAGE = 200
Letters = tuple[DeadLetter, ...]


class Loss(Value):
    """A worker that a step took down. at: seconds since 1970."""

    worker: str
    at: float


class DeadStep(Value):
    """A dead letter with what it is about. step: None for one of the engine, or where its plan is gone.

    status: of the run that it died in. lost: the workers that were lost before the last. depending: steps that wait for
    it, nearer or farther.
    """

    letter: DeadLetter
    objective: str
    status: RunStatus
    step: Step | None = None
    call: str = ""
    lost: tuple[Loss, ...] = ()
    depending: tuple[StepId, ...] = ()


class Replayed(Value):
    """A letter, and the run that does its step again: empty where that was only asked for."""

    id: str
    goal_id: GoalId
    run_id: str = ""


Answers = dict[str, Replayed | FleetFault]
Replays = list[Replayed | FleetFault]


class Dead:
    """The dead letters of a fleet. A letter's id is its run and step, `run:step`."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    def list(self, wanted: Wanted = ANY, *, replayed: bool = False, limit: int | None = None) -> Letters:
        """Letters that fit, by run and step. replayed: also those that were replayed. limit: None for all."""
        found: list[DeadLetter] = []
        while limit is None or len(found) < limit:
            size = PAGE if limit is None else min(PAGE, limit - len(found))
            after = (found[-1].run_id, found[-1].step_id) if found else None
            page = self._deps.record.dead.list(wanted, replayed=replayed, limit=size, after=after)
            found += page
            if len(page) < size:
                break
        return tuple(found)

    def get(self, letter_id: str) -> DeadLetter:
        """Raises UnknownLetter."""
        run, _, step = letter_id.partition(":")
        letter = self._deps.record.dead.get(RunId(run), StepId(step))
        if letter is None:
            raise UnknownLetter(f"there is no dead letter {letter_id}: see `fleet dead list --all`.")
        return letter

    def show(self, letter_id: str) -> DeadStep:
        """Raises UnknownLetter."""
        letter = self.get(letter_id)
        record = self._deps.record.goals.of_run(letter.run_id)
        past = Past.read(record, self._deps)
        step = past.steps.get(letter.step_id)
        return DeadStep(
            letter=letter,
            objective=record.goal.objective,
            status=record.status,
            step=step,
            call=step.call() if step else letter.tool,
            lost=tuple(_losses(self._events(letter.run_id), letter.step_id)),
            depending=tuple(sorted(past.hanging_on([letter.step_id], past.last()) - {letter.step_id})),
        )

    def replay(self, ids: Sequence[str], *, redo_writes: bool = False, dry: bool = False) -> Replays:
        """Do these steps again, each with a fresh count of losses, and what depends on them, in a further run.

        Letters of one run are replayed together. What had ended well is taken over, and calls that were paid for are
        not made again. dry: only say what would be done. A fault of one letter is its item: UnknownLetter; WrongState
        where it was replayed before, or its goal has not ended, or has gone on since; BadInput where a step that
        `writes` would do so again (unless redo_writes); Overloaded.
        """
        answers: Answers = {}
        runs: dict[RunId, list[DeadLetter]] = {}
        for letter_id in dict.fromkeys(ids):
            try:
                letter = self.get(letter_id)
            except UnknownLetter as unknown:
                answers[letter_id] = unknown
                continue
            runs.setdefault(letter.run_id, []).append(letter)
        for letters in runs.values():
            free = [letter for letter in letters if not self._refused(letter, answers)]
            if free and dry:
                answers |= {each.id: Replayed(id=each.id, goal_id=each.goal_id) for each in free}
            elif free:
                self._replay(free, answers, redo_writes=redo_writes)
        return [answers[letter_id] for letter_id in ids]

    def _refused(self, letter: DeadLetter, answers: Answers) -> bool:
        newest = self._deps.record.goals.get(letter.goal_id)
        if letter.replayed is not None and letter.replay:
            when = letter.replayed.isoformat(timespec="seconds")
            answers[letter.id] = WrongState(f"{letter.id} was replayed at {when}, as run {letter.replay}.")
        elif newest.run_id != letter.run_id:
            answers[letter.id] = WrongState(
                f"goal {letter.goal_id} has gone on since {letter.id} died, in run {newest.run_id}: "
                f"its dead letters, if it has any, are those to replay."
            )
        elif not newest.status.ended:
            answers[letter.id] = WrongState(
                f"goal {letter.goal_id} goes on ({newest.status}) without {letter.id}: "
                f"wait for its end, or cancel it, and replay then."
            )
        return letter.id in answers

    def _replay(self, letters: Sequence[DeadLetter], answers: Answers, *, redo_writes: bool) -> None:
        dead = self._deps.record.dead
        marks = {letter: mark for letter in letters if (mark := dead.take(letter.run_id, letter.step_id))}
        answers |= {
            letter.id: WrongState(f"{letter.id} is being replayed by somebody else just now.")
            for letter in letters
            if letter not in marks
        }
        run: RunId | None = None
        try:
            if marks:
                run = self._again(list(marks), answers, redo_writes=redo_writes)
        finally:
            for letter, mark in marks.items():
                dead.settle(letter.run_id, letter.step_id, mark, run)

    def _again(self, letters: Sequence[DeadLetter], answers: Answers, *, redo_writes: bool) -> RunId | None:
        record = self._deps.record.goals.of_run(letters[0].run_id)
        try:
            made = branch.replay(record, [each.step_id for each in letters], self._deps, redo_writes=redo_writes)
        except FleetFault as fault:
            answers |= {letter.id: fault for letter in letters}
            return None
        answers |= {each.id: Replayed(id=each.id, goal_id=each.goal_id, run_id=made.run_id) for each in letters}
        return RunId(made.run_id)

    def _events(self, run: RunId) -> Iterator[Event]:
        """Those on record; of a run whose events are not filed yet, those in Redis."""
        for source in (self._deps.record.events.read, self._deps.live.streams.read):
            after, found = "", False
            while events := source(run, after):
                found, after = True, events[-1].id
                yield from events
            if found:
                return


def _losses(events: Iterator[Event], step: StepId) -> Iterator[Loss]:
    for event in events:
        if event.type is EventType.STEP_LOST and event.step == step:
            yield Loss(worker=str(event.data.get("worker", "")), at=event.at)
