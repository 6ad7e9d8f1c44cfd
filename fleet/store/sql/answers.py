"""Questions that a joiner asked a person, and the one answer each of them gets."""

import uuid
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, exists, select, update

from fleet.core.ids import RunId, StepId
from fleet.core.run import RunStatus
from fleet.core.value import Value
from fleet.errors import BadInput
from fleet.store.sql.database import Database
from fleet.store.sql.rows import insert_absent, plain
from fleet.store.sql.tables import ANSWERS, RUNS, clock

QUESTIONS = ANSWERS.alias()


class Question(Value):
    """A question by the step that asked it. answer, by, answered: None until a person answered."""

    run_id: RunId
    step_id: StepId
    question: str
    asked: datetime
    answer: str | None = None
    by: str | None = None
    answered: datetime | None = None


class Answers:
    """A question is asked once a step, and answered once."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def ask(self, run_id: RunId, step_id: StepId, question: str) -> Question:
        """Keep a question unless the step asked one; gives the one that stands, durable on return."""
        row = {"run_id": run_id, "step_id": step_id, "question": plain(question)}

        def work(connection: Connection) -> Question:
            connection.execute(insert_absent(ANSWERS, connection), row)
            return _question(connection.execute(select(ANSWERS).where(*_is(run_id, step_id))).one())

        return self._db.write(work)

    def answer(self, run_id: RunId, step_id: StepId, text: str, by: str) -> bool:
        """Answer a question; durable on return. False when it was answered before. Raises BadInput for no question."""
        token = uuid.uuid4().hex
        change = update(ANSWERS).where(*_is(run_id, step_id), ANSWERS.c.answered.is_(None))
        change = change.values(answer=plain(text), answered_by=plain(by), token=token, answered=clock())

        def work(connection: Connection) -> bool:
            connection.execute(change)
            row = connection.execute(select(ANSWERS.c.token).where(*_is(run_id, step_id))).first()
            if row is None:
                raise BadInput(f"step {step_id} of run {run_id} asked no question.")
            return bool(row.token == token)

        return self._db.write(work)

    def open(self, run_id: RunId) -> list[Question]:
        """The questions of a run that nobody has answered, the oldest first."""
        query = select(ANSWERS).where(ANSWERS.c.run_id == run_id, ANSWERS.c.answered.is_(None))
        query = query.order_by(ANSWERS.c.asked, ANSWERS.c.step_id)
        return self._db.fetch(lambda connection: [_question(row) for row in connection.execute(query)])

    def newest(self, run_id: RunId) -> Question | None:
        """The question that a run asked last."""
        query = select(ANSWERS).where(ANSWERS.c.run_id == run_id)
        query = query.order_by(ANSWERS.c.asked.desc(), ANSWERS.c.step_id.desc()).limit(1)
        row = self._db.fetch(lambda connection: connection.execute(query).first())
        return None if row is None else _question(row)

    def unheeded(self, limit: int = 100) -> list[tuple[RunId, StepId]]:
        """The newest question of each run that is said to ask, and has no open one: nobody went on after its answer."""
        waiting = exists().where(QUESTIONS.c.run_id == RUNS.c.run_id, QUESTIONS.c.answered.is_(None))
        later = exists().where(QUESTIONS.c.run_id == ANSWERS.c.run_id, QUESTIONS.c.asked > ANSWERS.c.asked)
        query = select(ANSWERS.c.run_id, ANSWERS.c.step_id).join(RUNS, RUNS.c.run_id == ANSWERS.c.run_id)
        query = query.where(RUNS.c.status == RunStatus.ASKING, ~waiting, ~later).limit(limit)
        return self._db.fetch(lambda connection: [(row.run_id, row.step_id) for row in connection.execute(query)])

    def of(self, run_id: RunId, step_id: StepId) -> Question | None:
        """The question that a step asked, with its answer where there is one."""
        query = select(ANSWERS).where(*_is(run_id, step_id))
        row = self._db.fetch(lambda connection: connection.execute(query).first())
        return None if row is None else _question(row)


def _is(run_id: RunId, step_id: StepId) -> tuple[Any, Any]:
    return ANSWERS.c.run_id == run_id, ANSWERS.c.step_id == step_id


def _question(row: Row[Any]) -> Question:
    return Question(
        run_id=row.run_id,
        step_id=row.step_id,
        question=row.question,
        asked=row.asked,
        answer=row.answer,
        by=row.answered_by,
        answered=row.answered,
    )
