"""The tables of the record, in types that SQLite and PostgreSQL share. JSON is text, written and read by pydantic.

Migrations only add: last release's code works on this release's tables.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Dialect,
    Double,
    ForeignKey,
    Index,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import registry
from sqlalchemy.sql.functions import FunctionElement
from sqlmodel import Field, SQLModel

NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class Moment(TypeDecorator[datetime]):
    """A time with its zone. SQLite keeps no zones, so there it is UTC."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.astimezone(UTC).replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class clock(FunctionElement[datetime]):  # noqa: N801 - it is written as the SQL function that it is
    """The time by the database's clock, at the statement and not at the transaction's begin."""

    type = Moment()
    inherit_cache = True


@compiles(clock, "sqlite")
def _clock_sqlite(element: Any, compiler: Any, **kw: Any) -> str:
    return "(strftime('%Y-%m-%d %H:%M:%f', 'now') || '000')"


@compiles(clock, "postgresql")
def _clock_postgres(element: Any, compiler: Any, **kw: Any) -> str:
    return "clock_timestamp()"


ID = String(255).with_variant(String(255, collation="C"), "postgresql")
"""Ids sort by their bytes on both, whatever the language of the server."""

OPEN = text("ended IS NULL")
CHILD = text("parent IS NOT NULL")
OPEN_CALL = text("state = 'open'")


class Row(SQLModel, registry=registry(metadata=MetaData(naming_convention=NAMES))):
    """The base of the tables, apart from those that a user's own SQLModel classes make."""


def _key() -> Any:
    return Column(ID, primary_key=True)


def _run_key() -> Any:
    return Column(ID, ForeignKey("runs.run_id"), primary_key=True)


def _now() -> Any:
    return Column(Moment(), nullable=False, default=clock())


def _moment() -> Any:
    return Column(Moment(), nullable=True)


def _text(*, nullable: bool = False) -> Any:
    return Column(Text(), nullable=nullable)


def _number() -> Any:
    return Column(BigInteger(), nullable=False, default=0)


def _ordinal_key() -> Any:
    return Column(BigInteger(), primary_key=True, autoincrement=False)


class GoalRow(Row, table=True):
    """A goal as submitted. key: the idempotency key, of which a tenant has each once. fingerprint: of goal and plan."""

    __tablename__ = "goals"
    __table_args__ = (
        UniqueConstraint("key", "tenant"),
        Index("ix_goals_parent", "parent", sqlite_where=CHILD, postgresql_where=CHILD),
    )

    goal_id: str = Field(sa_column=_key())
    tenant: str = Field(sa_column=Column(ID, nullable=False))
    key: str | None = Field(sa_column=Column(ID))
    fingerprint: str = Field(sa_column=Column(String(64), nullable=False))
    goal: str = Field(sa_column=_text())
    traceparent: str = Field(sa_column=_text())
    created: datetime = Field(sa_column=_now())
    parent: str | None = Field(sa_column=Column(ID))


class RunRow(Row, table=True):
    """A pursuit of a goal. ended: None while it is open; end and usage are set with it, once.

    origin: the run that it took outcomes over from.
    """

    __tablename__ = "runs"
    __table_args__ = (
        Index("ix_runs_open", "run_id", sqlite_where=OPEN, postgresql_where=OPEN),
        Index("ix_runs_open_tenant", "tenant", sqlite_where=OPEN, postgresql_where=OPEN),
        Index("ix_runs_tenant_status", "tenant", "status"),
    )

    run_id: str = Field(sa_column=_key())
    goal_id: str = Field(sa_column=Column(ID, ForeignKey("goals.goal_id"), nullable=False, index=True))
    tenant: str = Field(sa_column=Column(ID, nullable=False))
    status: str = Field(sa_column=Column(String(32), nullable=False))
    end: str | None = Field(sa_column=_text(nullable=True))
    usage: str = Field(sa_column=_text())
    created: datetime = Field(sa_column=_now())
    ended: datetime | None = Field(sa_column=_moment())
    origin: str | None = Field(sa_column=Column(ID))


class PlanRow(Row, table=True):
    """A version of a run's plan."""

    __tablename__ = "plans"

    run_id: str = Field(sa_column=_run_key())
    version: int = Field(sa_column=_ordinal_key())
    plan: str = Field(sa_column=_text())
    created: datetime = Field(sa_column=_now())


class NotedStepRow(Row, table=True):
    """A step of a plan that is still being written. n: its place among the run's noted steps."""

    __tablename__ = "noted_steps"

    run_id: str = Field(sa_column=_run_key())
    step_id: str = Field(sa_column=_key())
    version: int = Field(sa_column=_number())
    n: int = Field(sa_column=_number())
    step: str = Field(sa_column=_text())


class OutcomeRow(Row, table=True):
    """The journal: what a step came to. fence: of the attempt that wrote it."""

    __tablename__ = "outcomes"

    run_id: str = Field(sa_column=_run_key())
    step_id: str = Field(sa_column=_key())
    outcome: str = Field(sa_column=_text())
    fence: str = Field(sa_column=_text())
    created: datetime = Field(sa_column=_now())


class CallRow(Row, table=True):
    """The ledger: a billed call, written ahead. opener: which opening it was last opened by.

    calls, input_tokens, output_tokens, money: what all its tries used; it grows when one is done or has failed.
    """

    __tablename__ = "calls"
    __table_args__ = (
        Index("ix_calls_reissued", "run_id", sqlite_where=text("reissues > 0"), postgresql_where=text("reissues > 0")),
        Index("ix_calls_open", "run_id", sqlite_where=OPEN_CALL, postgresql_where=OPEN_CALL),
    )

    run_id: str = Field(sa_column=_run_key())
    step_id: str = Field(sa_column=_key())
    ordinal: int = Field(sa_column=_ordinal_key())
    kind: str = Field(sa_column=Column(String(16), nullable=False))
    name: str = Field(sa_column=_text())
    state: str = Field(sa_column=Column(String(16), nullable=False))
    opener: str = Field(sa_column=Column(String(64), nullable=False))
    attempts: int = Field(sa_column=_number())
    reissues: int = Field(sa_column=_number())
    reservation: str = Field(sa_column=_text())
    idempotency_key: str = Field(sa_column=_text())
    request_hash: str = Field(sa_column=_text())
    response: str | None = Field(sa_column=_text(nullable=True))
    failure: str | None = Field(sa_column=_text(nullable=True))
    calls: int = Field(sa_column=_number())
    input_tokens: int = Field(sa_column=_number())
    output_tokens: int = Field(sa_column=_number())
    money: float = Field(sa_column=Column(Double(), nullable=False, default=0.0))
    opened: datetime = Field(sa_column=_now())
    closed: datetime | None = Field(sa_column=_moment())


class EventRow(Row, table=True):
    """A fact about a run; its id is `epoch-n`."""

    __tablename__ = "events"

    run_id: str = Field(sa_column=_run_key())
    epoch: int = Field(sa_column=_ordinal_key())
    n: int = Field(sa_column=_ordinal_key())
    event: str = Field(sa_column=_text())


class EpochRow(Row, table=True):
    """One row (id 1): the epoch of the fences, and the newest beat."""

    __tablename__ = "epochs"

    id: int = Field(sa_column=_ordinal_key())
    epoch: int = Field(sa_column=_number())
    beat_epoch: int = Field(sa_column=_number())
    beat_n: int = Field(sa_column=_number())
    beat_at: datetime | None = Field(sa_column=_moment())


class DeadLetterRow(Row, table=True):
    """A step that took its workers down. replayed: when it was given another chance; replay: by which run."""

    __tablename__ = "dead_letters"

    run_id: str = Field(sa_column=_run_key())
    step_id: str = Field(sa_column=_key())
    cause: str = Field(sa_column=_text())
    losses: int = Field(sa_column=_number())
    worker: str = Field(sa_column=_text())
    died: datetime = Field(sa_column=_now())
    replayed: datetime | None = Field(sa_column=_moment())
    tool: str = Field(sa_column=Column(Text(), nullable=False, server_default=""))
    replay: str | None = Field(sa_column=Column(ID))


class AnswerRow(Row, table=True):
    """A question to a person, and the answer. token: which call of `answer` it was taken from."""

    __tablename__ = "answers"

    run_id: str = Field(sa_column=_run_key())
    step_id: str = Field(sa_column=_key())
    question: str = Field(sa_column=_text())
    answer: str | None = Field(sa_column=_text(nullable=True))
    answered_by: str | None = Field(sa_column=_text(nullable=True))
    token: str | None = Field(sa_column=Column(String(64)))
    asked: datetime = Field(sa_column=_now())
    answered: datetime | None = Field(sa_column=_moment())


METADATA = Row.metadata


def _table(row: type[Row]) -> Table:
    return METADATA.tables[str(row.__tablename__)]


GOALS = _table(GoalRow)
RUNS = _table(RunRow)
PLANS = _table(PlanRow)
NOTED_STEPS = _table(NotedStepRow)
OUTCOMES = _table(OutcomeRow)
CALLS = _table(CallRow)
EVENTS = _table(EventRow)
EPOCHS = _table(EpochRow)
DEAD_LETTERS = _table(DeadLetterRow)
ANSWERS = _table(AnswerRow)
