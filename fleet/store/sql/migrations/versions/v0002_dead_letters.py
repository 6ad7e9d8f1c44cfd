"""What a dead letter is found by and replayed as; open calls found without a look at all the others."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

ID = sa.String(255).with_variant(sa.String(255, collation="C"), "postgresql")
OPEN = sa.text("state = 'open'")


def upgrade() -> None:
    op.add_column("dead_letters", sa.Column("tool", sa.Text(), nullable=False, server_default=""))
    op.add_column("dead_letters", sa.Column("replay", ID, nullable=True))
    op.create_index("ix_calls_open", "calls", ["run_id"], sqlite_where=OPEN, postgresql_where=OPEN)
