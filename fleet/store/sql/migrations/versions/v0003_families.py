"""Which goal another belongs to, and which run another took outcomes over from."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

ID = sa.String(255).with_variant(sa.String(255, collation="C"), "postgresql")
CHILD = sa.text("parent IS NOT NULL")


def upgrade() -> None:
    op.add_column("goals", sa.Column("parent", ID, nullable=True))
    op.add_column("runs", sa.Column("origin", ID, nullable=True))
    op.create_index("ix_goals_parent", "goals", ["parent"], sqlite_where=CHILD, postgresql_where=CHILD)
