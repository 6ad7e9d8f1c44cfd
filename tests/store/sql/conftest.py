"""Both databases: SQLite in a folder of the test, PostgreSQL from a server that all tests share."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pgcluster import Cluster

from fleet.core.goal import Goal
from fleet.core.ids import GoalId, RunId
from fleet.store.sql.database import Database
from fleet.store.sql.goals import Submission
from fleet.store.sql.record import Record

Submit = Callable[..., Submission]


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    cluster.start()
    yield cluster
    cluster.remove()


@pytest.fixture
def postgres_url(cluster: Cluster) -> str:
    return cluster.new_schema()


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'record.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = Database.open(database_url)
    yield database
    database.close()


@pytest.fixture
def record(database: Database) -> Record:
    return Record(database)


@pytest.fixture
def submit() -> Submit:
    """Makes a submission whose ids sort in the order of the calls: G0001 with R0001, then G0002 with R0002."""
    numbers = itertools.count(1)

    def make(objective: str = "compare things", **rest: object) -> Submission:
        n = next(numbers)
        plan = rest.pop("plan", None)
        goal = Goal(objective=objective, **rest)
        return Submission(goal_id=GoalId(f"G{n:04}"), run_id=RunId(f"R{n:04}"), goal=goal, plan=plan)

    return make


@pytest.fixture
def run(record: Record, submit: Submit) -> RunId:
    """A run that was accepted."""
    submission = submit()
    record.goals.accept([submission])
    return submission.run_id
