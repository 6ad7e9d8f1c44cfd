"""What Alembic runs: on the connection, and in the transaction, that fleet.store.sql.migrate gives it."""

from alembic import context

from fleet.store.sql.migrate import VERSION_TABLE
from fleet.store.sql.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
