"""Events of runs, kept when Redis forgets them."""

from collections.abc import Sequence

from sqlalchemy import Connection, select, tuple_

from fleet.core.events import Event
from fleet.core.ids import RunId
from fleet.store.sql.database import Database
from fleet.store.sql.rows import insert_absent, text_of
from fleet.store.sql.tables import EVENTS, RUNS


class Events:
    """Ordered by epoch, then by number within it."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def store(self, run_id: RunId, events: Sequence[Event]) -> None:
        """Keep those that are not there yet; durable on return. Raises ValueError for an id that is not `epoch-n`."""
        self.file(run_id, [(event.id, text_of(event)) for event in events])

    def file(self, run_id: RunId, events: Sequence[tuple[str, str]]) -> None:
        """As store, of events that are JSON already: (id, text)."""
        rows = []
        for event_id, text in events:
            epoch, n = place(event_id)
            rows.append({"run_id": run_id, "epoch": epoch, "n": n, "event": text})

        def work(connection: Connection) -> None:
            connection.execute(insert_absent(EVENTS, connection), rows)

        if rows:
            self._db.write(work)

    def read(self, run_id: RunId, after: str = "", limit: int = 500) -> list[Event]:
        """Events behind the one of id `after`, in order."""
        query = select(EVENTS.c.event).where(EVENTS.c.run_id == run_id)
        if after:
            epoch, n = place(after)
            query = query.where(tuple_(EVENTS.c.epoch, EVENTS.c.n) > tuple_(epoch, n))
        query = query.order_by(EVENTS.c.epoch, EVENTS.c.n).limit(limit)
        texts = self._db.fetch(lambda connection: list(connection.execute(query).scalars()))
        return [Event.model_validate_json(text) for text in texts]

    def last(self, run_id: RunId) -> str:
        """The id of the newest event that is kept, which `read` takes as `after`; empty for none."""
        query = select(EVENTS.c.epoch, EVENTS.c.n).where(EVENTS.c.run_id == run_id)
        query = query.order_by(EVENTS.c.epoch.desc(), EVENTS.c.n.desc()).limit(1)
        row = self._db.fetch(lambda connection: connection.execute(query).first())
        return "" if row is None else f"{row.epoch}-{row.n}"

    def untold(self, after: RunId | None = None, limit: int = 500) -> list[RunId]:
        """Runs that have ended and of which no event is kept, in the order of their ids, from behind `after`."""
        kept = select(EVENTS.c.n).where(EVENTS.c.run_id == RUNS.c.run_id).exists()
        query = select(RUNS.c.run_id).where(RUNS.c.ended.is_not(None), ~kept)
        if after is not None:
            query = query.where(RUNS.c.run_id > after)
        query = query.order_by(RUNS.c.run_id).limit(limit)
        return self._db.fetch(lambda connection: [RunId(run) for run in connection.execute(query).scalars()])


def place(event_id: str) -> tuple[int, int]:
    """Epoch and number of an event's id. Raises ValueError."""
    epoch, _, n = event_id.partition("-")
    return int(epoch), int(n)
