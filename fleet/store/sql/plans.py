"""Plan versions, and the steps of a plan that is still being written."""

from collections.abc import Sequence
from concurrent.futures import Future

from sqlalchemy import Connection, bindparam, func, select

from fleet.core.ids import RunId
from fleet.core.plan import Plan, Step
from fleet.store.sql.database import Database
from fleet.store.sql.rows import insert_absent
from fleet.store.sql.tables import NOTED_STEPS, PLANS

_OF_RUN = select(PLANS.c.plan).where(PLANS.c.run_id == bindparam("of")).order_by(PLANS.c.version)


class Plans:
    """Plans are kept whole: a join policy that is written without its `kind`, a default, can't be read back."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def save(self, run_id: RunId, plan: Plan) -> Plan:
        """Keep this version unless the run has one of that number; gives the plan that stands, durable on return."""
        row = {"run_id": run_id, "version": plan.version, "plan": plan.model_dump_json()}
        standing = select(PLANS.c.plan).where(PLANS.c.run_id == run_id, PLANS.c.version == plan.version)

        def work(connection: Connection) -> str:
            connection.execute(insert_absent(PLANS, connection), row)
            return str(connection.execute(standing).scalar_one())

        return Plan.model_validate_json(self._db.write(work))

    def all(self, run_id: RunId) -> tuple[Plan, ...]:
        """Every version, the first one first."""
        texts = self._db.fetch(lambda connection: list(connection.execute(_OF_RUN, {"of": run_id}).scalars()))
        return tuple(Plan.model_validate_json(text) for text in texts)

    def note_steps(self, run_id: RunId, version: int, steps: Sequence[Step]) -> "Future[None]":
        """Keep steps that were compiled before their plan is whole, each once. Does not wait; the Future is durable."""
        rows = [{"run_id": run_id, "version": version, "step_id": s.id, "step": s.model_dump_json()} for s in steps]
        last = select(func.coalesce(func.max(NOTED_STEPS.c.n), 0)).where(NOTED_STEPS.c.run_id == run_id)

        def work(connection: Connection) -> None:
            first = connection.execute(last).scalar_one() + 1
            numbered = [row | {"n": n} for n, row in enumerate(rows, first)]
            if numbered:
                connection.execute(insert_absent(NOTED_STEPS, connection), numbered)

        return self._db.write_soon(work)

    def noted(self, run_id: RunId) -> tuple[tuple[int, Step], ...]:
        """Plan version and step, in the order they were noted."""
        query = select(NOTED_STEPS.c.version, NOTED_STEPS.c.step).where(NOTED_STEPS.c.run_id == run_id)
        query = query.order_by(NOTED_STEPS.c.version, NOTED_STEPS.c.n)
        rows = self._db.fetch(lambda connection: connection.execute(query).all())
        return tuple((row.version, Step.model_validate_json(row.step)) for row in rows)
