"""The record: one database, and a door for each concern."""

from fleet.store.sql.answers import Answers
from fleet.store.sql.database import PATIENCE, Database
from fleet.store.sql.dead import DeadLetters
from fleet.store.sql.epochs import Epochs
from fleet.store.sql.events import Events
from fleet.store.sql.goals import Goals
from fleet.store.sql.ledger import Ledger
from fleet.store.sql.outcomes import Outcomes
from fleet.store.sql.plans import Plans
from fleet.store.sql.takeovers import Takeovers


class Record:
    """What must never be lost. Thread safe; close it to be sure that what was written behind is on disk."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.goals = Goals(db)
        self.plans = Plans(db)
        self.outcomes = Outcomes(db)
        self.ledger = Ledger(db)
        self.events = Events(db)
        self.epochs = Epochs(db)
        self.dead = DeadLetters(db)
        self.answers = Answers(db)
        self.takeovers = Takeovers(db)

    @classmethod
    def open(cls, url: str, *, create: bool = True, patience: float = PATIENCE) -> "Record":
        """As Database.open, which says what is raised."""
        return cls(Database.open(url, create=create, patience=patience))

    def close(self) -> None:
        """Write what was handed in, then let go. Raises StoreUnreachable when writes are left."""
        self.db.close()
