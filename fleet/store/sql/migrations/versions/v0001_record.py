"""The first form of the record."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.String(255).with_variant(sa.String(255, collation="C"), "postgresql")
OPEN = sa.text("ended IS NULL")
REISSUED = sa.text("reissues > 0")


def upgrade() -> None:
    _goals_and_runs()
    _plans()
    _outcomes_and_calls()
    _events_and_epochs()
    _dead_letters_and_answers()


def _id(name: str, *, nullable: bool = False) -> "sa.Column[Any]":
    return sa.Column(name, ID, nullable=nullable)


def _text(name: str, *, nullable: bool = False) -> "sa.Column[Any]":
    return sa.Column(name, sa.Text(), nullable=nullable)


def _short(name: str, length: int, *, nullable: bool = False) -> "sa.Column[Any]":
    return sa.Column(name, sa.String(length), nullable=nullable)


def _number(name: str) -> "sa.Column[Any]":
    return sa.Column(name, sa.BigInteger(), nullable=False, autoincrement=False)


def _moment(name: str, *, nullable: bool = False) -> "sa.Column[Any]":
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def _of_run(table: str, *key: str) -> tuple[sa.Constraint, ...]:
    return (
        sa.PrimaryKeyConstraint("run_id", *key, name=f"pk_{table}"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=f"fk_{table}_run_id"),
    )


def _goals_and_runs() -> None:
    op.create_table(
        "goals",
        _id("goal_id"),
        _id("tenant"),
        _id("key", nullable=True),
        _short("fingerprint", 64),
        _text("goal"),
        _text("traceparent"),
        _moment("created"),
        sa.PrimaryKeyConstraint("goal_id", name="pk_goals"),
        sa.UniqueConstraint("key", "tenant", name="uq_goals_key_tenant"),
    )
    op.create_table(
        "runs",
        _id("run_id"),
        _id("goal_id"),
        _id("tenant"),
        _short("status", 32),
        _text("end", nullable=True),
        _text("usage"),
        _moment("created"),
        _moment("ended", nullable=True),
        sa.PrimaryKeyConstraint("run_id", name="pk_runs"),
        sa.ForeignKeyConstraint(["goal_id"], ["goals.goal_id"], name="fk_runs_goal_id"),
    )
    op.create_index("ix_runs_goal_id", "runs", ["goal_id"])
    op.create_index("ix_runs_tenant_status", "runs", ["tenant", "status"])
    op.create_index("ix_runs_open", "runs", ["run_id"], sqlite_where=OPEN, postgresql_where=OPEN)
    op.create_index("ix_runs_open_tenant", "runs", ["tenant"], sqlite_where=OPEN, postgresql_where=OPEN)


def _plans() -> None:
    op.create_table(
        "plans", _id("run_id"), _number("version"), _text("plan"), _moment("created"), *_of_run("plans", "version")
    )
    op.create_table(
        "noted_steps",
        _id("run_id"),
        _id("step_id"),
        _number("version"),
        _number("n"),
        _text("step"),
        *_of_run("noted_steps", "step_id"),
    )


def _outcomes_and_calls() -> None:
    op.create_table(
        "outcomes",
        _id("run_id"),
        _id("step_id"),
        _text("outcome"),
        _text("fence"),
        _moment("created"),
        *_of_run("outcomes", "step_id"),
    )
    op.create_table(
        "calls",
        *(_id("run_id"), _id("step_id"), _number("ordinal")),
        *(_short("kind", 16), _text("name"), _short("state", 16), _short("opener", 64)),
        *(_number("attempts"), _number("reissues")),
        *(_text("reservation"), _text("idempotency_key"), _text("request_hash")),
        *(_text("response", nullable=True), _text("failure", nullable=True)),
        *(_number("calls"), _number("input_tokens"), _number("output_tokens")),
        sa.Column("money", sa.Double(), nullable=False),
        *(_moment("opened"), _moment("closed", nullable=True)),
        *_of_run("calls", "step_id", "ordinal"),
    )
    op.create_index("ix_calls_reissued", "calls", ["run_id"], sqlite_where=REISSUED, postgresql_where=REISSUED)


def _events_and_epochs() -> None:
    op.create_table(
        "events", _id("run_id"), _number("epoch"), _number("n"), _text("event"), *_of_run("events", "epoch", "n")
    )
    op.create_table(
        "epochs",
        *(_number("id"), _number("epoch"), _number("beat_epoch"), _number("beat_n"), _moment("beat_at", nullable=True)),
        sa.PrimaryKeyConstraint("id", name="pk_epochs"),
    )


def _dead_letters_and_answers() -> None:
    op.create_table(
        "dead_letters",
        *(_id("run_id"), _id("step_id"), _text("cause"), _number("losses"), _text("worker")),
        *(_moment("died"), _moment("replayed", nullable=True)),
        *_of_run("dead_letters", "step_id"),
    )
    op.create_table(
        "answers",
        *(_id("run_id"), _id("step_id"), _text("question"), _text("answer", nullable=True)),
        *(_text("answered_by", nullable=True), _short("token", 64, nullable=True)),
        *(_moment("asked"), _moment("answered", nullable=True)),
        *_of_run("answers", "step_id"),
    )
