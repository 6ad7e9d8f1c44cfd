"""The spans of one goal: goal, plan, steps, calls; none of them holds what was said."""

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from fleet.core.budget import Usage
from fleet.core.plan import Effect
from fleet.engine.deps import Deps
from fleet.llm.scripted import ScriptedModel, Turn
from fleet.llm.select import Models
from fleet.telemetry import Telemetry
from fleet.tools.decorator import tool
from fleet.tools.tool import ToolFailed
from tests.engine.fleetlet import asked, slot_of, with_tools

SECRET = "the-canary-sings"
TURNS = (
    Turn(
        purpose="planner",
        text=f'1. sing("{SECRET}")\n2. fall("{SECRET}")\n3. join()',
        usage=Usage(calls=1, input_tokens=7, output_tokens=5),
    ),
    Turn(purpose="joiner", text=f"Action: Finish({SECRET})"),
)


@tool(effect=Effect.PURE)
def sing(song: str) -> str:
    """Sing."""
    return song


@tool(effect=Effect.PURE)
def fall(song: str) -> str:
    """Say no."""
    raise ToolFailed("fell", song)


@pytest.fixture
def spans(deps: Deps) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    deps.telemetry = Telemetry(SimpleSpanProcessor(exporter))
    model = ScriptedModel(TURNS)
    deps.models = Models(planner=model, step=model)
    with_tools(deps, sing, fall)
    return exporter


def of(spans: InMemorySpanExporter, name: str) -> ReadableSpan:
    (found,) = [span for span in spans.get_finished_spans() if span.name == name]
    return found


def test_a_goal_is_one_trace_of_plan_steps_and_calls(deps: Deps, spans: InMemorySpanExporter) -> None:
    run = asked(deps)
    slot_of(deps).carry(None)
    names = {span.name for span in spans.get_finished_spans()}
    steps = {"plan planner", "execute_tool sing", "execute_tool fall", "invoke_agent joiner"}
    assert names == {"invoke_workflow", "chat scripted", *steps}
    root = of(spans, "invoke_workflow")
    assert root.parent is None
    for name in steps:
        span = of(spans, name)
        assert span.parent is not None
        assert span.parent.span_id == root.context.span_id
        assert span.attributes is not None
        assert span.attributes["fleet.run.id"] == run
    chats = [span for span in spans.get_finished_spans() if span.name == "chat scripted"]
    parents = {span.parent.span_id for span in chats if span.parent}
    assert parents == {of(spans, name).context.span_id for name in ("plan planner", "invoke_agent joiner")}
    assert {span.context.trace_id for span in spans.get_finished_spans()} == {root.context.trace_id}


def test_spans_hold_usage_and_error_types_and_never_what_was_said(deps: Deps, spans: InMemorySpanExporter) -> None:
    asked(deps)
    slot_of(deps).carry(None)
    usage = [dict(span.attributes or {}) for span in spans.get_finished_spans() if span.name == "chat scripted"]
    assert (7, 5) in {(u["gen_ai.usage.input_tokens"], u["gen_ai.usage.output_tokens"]) for u in usage}
    failed = of(spans, "execute_tool fall")
    assert failed.attributes is not None
    assert failed.attributes["error.type"] == "fell"
    assert not any(SECRET in span.to_json() for span in spans.get_finished_spans())
