"""Tools and plans that the planning tests share."""

from collections.abc import Iterable

from fleet.core.plan import Effect, Plan, Problem, Step
from fleet.core.retry import RetryPolicy
from fleet.core.tool import ToolSpec
from fleet.core.value import Json
from fleet.planning.compile import LineCompiler
from fleet.planning.grammar import PlanParser
from fleet.planning.lines import RawLine
from fleet.planning.scope import Limits

TEXT = {"type": "string"}
NUMBER = {"type": "number"}


def tool(
    name: str,
    properties: dict[str, Json],
    *,
    effect: Effect = Effect.PURE,
    required: list[str] | None = None,
    expressions: tuple[str, ...] = (),
    cost: float = 0.0,
    attempts: int = 3,
    seconds: float = 1.0,
    timeout: float = 60.0,
) -> ToolSpec:
    names = list(properties) if required is None else required
    return ToolSpec(
        name=name,
        effect=effect,
        parameters={"type": "object", "properties": properties, "required": names},
        expressions=frozenset(expressions),
        cost=cost,
        retry=RetryPolicy(attempts=attempts),
        seconds=seconds,
        timeout=timeout,
    )


TOOLS = {
    spec.name: spec
    for spec in (
        tool(
            "search",
            {"query": TEXT, "limit": {"type": "integer", "minimum": 1}},
            effect=Effect.READS,
            required=["query"],
        ),
        tool("extract", {"text": TEXT, "attribute": TEXT}),
        tool("calc", {"expression": TEXT}, expressions=("expression",)),
        tool(
            "pick",
            {
                "mode": {"enum": ["max", "min"]},
                "labels": {"type": "array", "items": TEXT},
                "values": {"type": "array", "items": NUMBER},
            },
        ),
        tool("send", {"to": TEXT, "body": TEXT}, effect=Effect.WRITES),
        tool("think", {"about": TEXT}, effect=Effect.READS, cost=0.25, seconds=5.0),
    )
}

TRENCHES = """1. search("Mariana Trench")
2. search("Puerto Rico Trench")
3. extract("$1", "max_depth_m")
4. extract("$2", "max_depth_m")
5. calc("$3 * 0.80")
6. calc("$4 * 1.20")
7. pick("min", ["Mariana Trench", "Puerto Rico Trench"], ["$5", "$6"])
8. join()"""

OCEANS = """1. search("Atlantic Ocean")
2. search("Arctic Ocean")
3. extract("$1", "area_km2")
4. extract("$2", "area_km2")
5. calc("$3 * 1.10")
6. calc("$4 * 0.85")
7. calc("max($5, $6) / min($5, $6)")
8. join()"""

FAILED_TRENCHES = TRENCHES.replace("max_depth_m", "height_m")
SECOND_TRENCHES = """9. extract("$1", "max_depth_m")
10. extract("$2", "max_depth_m")
11. calc("$9 * 0.80")
12. calc("$10 * 1.20")
13. pick("min", ["Mariana Trench", "Puerto Rico Trench"], ["$11", "$12"])
14. join()"""


def parse(text: str) -> list[RawLine]:
    parser = PlanParser()
    return parser.feed(text) + parser.close()


def compile_text(text: str, limits: Limits | None = None, known: Iterable[Step] = ()) -> Plan | tuple[Problem, ...]:
    compiler = LineCompiler(TOOLS, known={step.id: step for step in known}, limits=limits)
    for raw in parse(text):
        compiler.line(raw)
    return compiler.finish(source=text)


def plan_of(text: str, known: Iterable[Step] = ()) -> Plan:
    found = compile_text(text, known=known)
    assert isinstance(found, Plan), found
    return found


def codes(found: Plan | tuple[Problem, ...]) -> list[str]:
    assert not isinstance(found, Plan), "it should have been refused"
    return [problem.code for problem in found]
