"""A program that hands in goals by the hundred, and takes their answers: `python examples/producer.py`.

It uses the fleet that FLEET_REDIS_URL names, else the one that `fleet up` runs in this folder.
"""

from pathlib import Path

from fleet.client import Fleet
from fleet.engine.submit import Handle
from fleet.errors import FleetFault
from fleet.planning.documents import load_plan
from fleet.tools.registry import Registry

PLAN = Path(__file__).parent / "plans" / "trench.yaml"
PER_CENT = range(0, 100)


def answer_of(fleet: Fleet, accepted: Handle | FleetFault) -> dict[str, str]:
    """A goal's answer. An item that was refused is its reason, and is raised here."""
    if isinstance(accepted, FleetFault):
        raise accepted
    answer: dict[str, str] = fleet.result(accepted.goal_id, timeout=120).answer
    return answer


def main() -> None:
    specs = {spec.name: spec for spec in Registry.load().specs()}
    documents = [load_plan(PLAN.read_text(), specs, {"less": less}, PLAN.name) for less in PER_CENT]
    with Fleet.connect() as fleet:
        accepted = fleet.submit_many([(document.goal, document.plan) for document in documents])
        answers = [answer_of(fleet, each) for each in accepted]
    turns = next(less for less, answer in zip(PER_CENT, answers, strict=True) if answer["deepest"] != "Mariana")
    print(f"{len(answers)} goals; the Mariana Trench loses its place when it is {turns}% shallower")  # noqa: T201


if __name__ == "__main__":
    main()
