"""The research job: its goal, and the files that belong to it."""

from pathlib import Path

from fleet.core.goal import Goal

HERE = Path(__file__).resolve().parent
TOOLS = HERE / "tools.py"
TURNS = HERE / "turns.jsonl"
OBJECTIVE = (
    "Compare three ways of storing grid electricity (pumped hydro, lithium-ion batteries, hydrogen) "
    "by efficiency, cost, lifetime and siting."
)


def goal(latency: float = 0.0) -> Goal:
    """The goal. latency: seconds that each search waits, as one over the network would; a read waits half of it."""
    return Goal(
        objective=OBJECTIVE,
        criteria=("Every figure names the sentence it comes from.",),
        tools=("search", "read", "extract", "calc", "summarise"),
        labels={"latency": f"{latency:g}"},
    )
