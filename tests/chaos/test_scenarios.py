"""A short round of some scenarios: whatever dies, nothing is lost and nothing that is done is done again."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.chaos.rig import Rig, Rigged, rigged
from tests.chaos.scenario import Scenario, run
from tests.chaos.scenarios import SCENARIOS, TO_COME

SEED = 3
ROUND = (2, 5, 7, 13)
"""What each run of the tests plays, in a minute; `make chaos` plays all of them, and longer."""
Raised = Callable[[Rig], Rigged]


@pytest.fixture(scope="module")
def raised(tmp_path_factory: pytest.TempPathFactory, new_record: Callable[[], str | None]) -> Iterator[Raised]:
    """A fleet for each rig, which scenarios that want the same one share: each has to leave it whole."""
    fleets: dict[Rig, Rigged] = {}
    with ExitStack() as stack:

        def give(rig: Rig) -> Rigged:
            if rig not in fleets:
                folder: Path = tmp_path_factory.mktemp("chaos")
                fleets[rig] = stack.enter_context(rigged(rig, folder, new_record()))
            return fleets[rig]

        yield give


@pytest.mark.chaos
@pytest.mark.parametrize("scenario", [SCENARIOS[n] for n in ROUND], ids=lambda each: f"{each.number:02}-{each.name}")
def test_nothing_is_lost_and_nothing_is_done_twice(scenario: Scenario, raised: Raised) -> None:
    """R1 to R6, R8, R9, R36: the faults fired, every goal ended as without them, and the history is as promised."""
    row = run(scenario, raised(scenario.short.rig), scenario.short, SEED)
    assert not row.broken, "\n".join([str(row), *row.broken])


def test_every_number_has_one_place() -> None:
    assert sorted([*SCENARIOS, *TO_COME]) == list(range(1, 26))
