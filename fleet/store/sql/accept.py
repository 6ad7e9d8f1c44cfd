"""Accept goals: all of a batch in one transaction, and each idempotency key of a tenant once."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, select

from fleet.core.budget import Usage
from fleet.core.goal import Goal
from fleet.core.ids import GoalId, RunId
from fleet.core.plan import Plan
from fleet.core.run import RunStatus
from fleet.core.value import Value
from fleet.errors import KeyReused
from fleet.store.sql.database import Database
from fleet.store.sql.rows import CHUNK, insert_absent, text_of
from fleet.store.sql.tables import GOALS, PLANS, RUNS


class Submission(Value):
    """A goal to be accepted, with the ids it gets if it is new, and its plan where a person wrote one."""

    goal_id: GoalId
    run_id: RunId
    goal: Goal
    plan: Plan | None = None
    traceparent: str = ""


class Accepted(Value):
    """The ids of the goal that stands. new: False when its key (or its id) had been accepted before."""

    goal_id: GoalId
    run_id: RunId
    new: bool


class Standing(NamedTuple):
    goal_id: GoalId
    run_id: RunId
    fingerprint: str
    new: bool


Identity = tuple[str, str] | str
"""Tenant and key of a goal that has a key; the goal id of one that has none."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A submission made ready outside of the transaction."""

    submission: Submission
    fingerprint: str
    goal: str
    plan: str

    @classmethod
    def of(cls, submission: Submission) -> "Draft":
        goal, plan = submission.goal, submission.plan
        texts = text_of(goal), plan.model_dump_json() if plan else ""
        return cls(submission, fingerprint(goal, plan) if goal.key else _digest("\n".join(texts)), *texts)

    @property
    def identity(self) -> Identity:
        goal = self.submission.goal
        return self.submission.goal_id if goal.key is None else (goal.tenant, goal.key)

    def goal_row(self) -> dict[str, object]:
        submission = self.submission
        return {
            "goal_id": submission.goal_id,
            "tenant": submission.goal.tenant,
            "key": submission.goal.key,
            "fingerprint": self.fingerprint,
            "goal": self.goal,
            "traceparent": submission.traceparent,
            "parent": submission.goal.parent,
        }

    def run_row(self) -> dict[str, object]:
        submission = self.submission
        return {
            "run_id": submission.run_id,
            "goal_id": submission.goal_id,
            "tenant": submission.goal.tenant,
            "status": RunStatus.RUNNING.value,
            "usage": text_of(Usage()),
        }


def fingerprint(goal: Goal, plan: Plan | None) -> str:
    """SHA-256, in hex, of goal and plan as JSON with sorted keys. Equal bodies have equal ones.

    Only a goal with a key is ever compared with another one; the rest spare themselves the sorting.
    """
    body = [
        goal.model_dump(mode="json", exclude_defaults=True),
        plan.model_dump(mode="json") if plan else None,  # whole: join policies differ by a default, `kind`
    ]
    return _digest(json.dumps(body, sort_keys=True, separators=(",", ":")))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def known_keys(db: Database, identities: Sequence[Identity]) -> set[Identity]:
    """Those of the (tenant, key) pairs that were used before."""
    return db.fetch(lambda connection: {identity for identity, _ in _found(connection, list(identities))})


def accept(db: Database, submissions: Sequence[Submission]) -> list[Accepted | KeyReused]:
    """Accept all in one transaction; the answers are in the order of the submissions.

    KeyReused, as an item, for a key that was used with another body. Raises StoreUnreachable.
    """
    if not submissions:
        return []
    drafts = [Draft.of(submission) for submission in submissions]
    firsts: dict[Identity, Draft] = {}
    for draft in drafts:
        firsts.setdefault(draft.identity, draft)
    mine: set[str] = set()  # outlives a transaction that is run again after a commit of unknown end
    standing = db.write(lambda connection: _settle(connection, firsts, mine))
    return [_answer(draft, firsts[draft.identity], standing[draft.identity]) for draft in drafts]


def _answer(draft: Draft, first: Draft, standing: Standing) -> Accepted | KeyReused:
    if draft.fingerprint != standing.fingerprint:
        used = f"key {draft.submission.goal.key!r}" if draft.submission.goal.key else f"id {standing.goal_id}"
        return KeyReused(f"the {used} was used before by goal {standing.goal_id}, with another body: use a new one.")
    return Accepted(goal_id=standing.goal_id, run_id=standing.run_id, new=standing.new and draft is first)


def _settle(connection: Connection, firsts: dict[Identity, Draft], mine: set[str]) -> dict[Identity, Standing]:
    inserted = _insert(connection, list(firsts.values()))
    mine |= inserted
    settled = {
        identity: Standing(draft.submission.goal_id, draft.submission.run_id, draft.fingerprint, True)
        for identity, draft in firsts.items()
        if draft.submission.goal_id in inserted
    }
    others = [identity for identity in firsts if identity not in settled]
    for identity, standing in _found(connection, others):
        settled[identity] = standing._replace(new=standing.goal_id in mine)
    return settled


def _insert(connection: Connection, drafts: list[Draft]) -> set[str]:
    """Insert those that are absent; the goal ids of those that were."""
    statement = insert_absent(GOALS, connection).returning(GOALS.c.goal_id)
    inserted = set(connection.execute(statement, [draft.goal_row() for draft in drafts]).scalars())
    new = [draft for draft in drafts if draft.submission.goal_id in inserted]
    if new:
        connection.execute(RUNS.insert(), [draft.run_row() for draft in new])
    plans = [
        {"run_id": draft.submission.run_id, "version": plan.version, "plan": draft.plan}
        for draft in new
        if (plan := draft.submission.plan)
    ]
    if plans:
        connection.execute(PLANS.insert(), plans)
    return inserted


def _found(connection: Connection, identities: list[Identity]) -> Iterator[tuple[Identity, Standing]]:
    for start in range(0, len(identities), CHUNK):
        chunk = identities[start : start + CHUNK]
        ids = [identity for identity in chunk if isinstance(identity, str)]
        keys: dict[str, list[str]] = {}
        for identity in chunk:
            if not isinstance(identity, str):
                keys.setdefault(identity[0], []).append(identity[1])
        if ids:
            yield from _standing(connection, GOALS.c.goal_id.in_(ids), keyed=False)
        for tenant, names in keys.items():
            yield from _standing(connection, and_(GOALS.c.tenant == tenant, GOALS.c.key.in_(names)), keyed=True)


def _standing(
    connection: Connection, which: ColumnElement[bool], *, keyed: bool
) -> Iterator[tuple[Identity, Standing]]:
    """The newest run of a goal comes last, and stands. Sorted here: by the database it walks the whole index."""
    rows = connection.execute(_goals_and_runs().where(which)).all()
    for row in sorted(rows, key=lambda row: str(row.run_id)):
        identity = (row.tenant, row.key) if keyed else row.goal_id
        yield identity, Standing(row.goal_id, row.run_id, row.fingerprint, False)


def _goals_and_runs() -> Select[tuple[str, ...]]:
    columns = (GOALS.c.goal_id, GOALS.c.tenant, GOALS.c.key, GOALS.c.fingerprint, RUNS.c.run_id)
    return select(*columns).join(RUNS, RUNS.c.goal_id == GOALS.c.goal_id)
