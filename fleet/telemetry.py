"""OpenTelemetry spans and structured logs: the only module that knows either. Spans are off by default.

Span and attribute names follow the GenAI semantic conventions v0.1.0 (status: Development); content is never captured.
"""

import json
import logging
import re
import secrets
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import NonRecordingSpan, SpanContext, Status, StatusCode, TraceFlags

from fleet import __version__
from fleet.errors import BadSetting

GENAI_CONVENTIONS = "0.1.0"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class _ChosenIds(RandomIdGenerator):
    """Gives a span the id that was chosen for it when its goal was submitted, and else a random one."""

    def __init__(self) -> None:
        self.chosen: tuple[int, int] | None = None

    def generate_span_id(self) -> int:
        return self.chosen[1] if self.chosen else super().generate_span_id()

    def generate_trace_id(self) -> int:
        return self.chosen[0] if self.chosen else super().generate_trace_id()


class Telemetry:
    """Makes spans for goals, plans, steps and calls. With no processor every method does next to nothing."""

    def __init__(self, processor: SpanProcessor | None = None, service: str = "fleet") -> None:
        self._ids = _ChosenIds()
        self._provider: TracerProvider | None = None
        if processor is not None:
            resource = Resource.create({"service.name": service, "service.version": __version__})
            self._provider = TracerProvider(resource=resource, id_generator=self._ids, shutdown_on_exit=False)
            self._provider.add_span_processor(processor)
            self._tracer = self._provider.get_tracer("fleet", __version__)

    @classmethod
    def configured(cls, where: str, service: str = "fleet") -> "Telemetry":
        """where: off, console (stderr, a JSON line a span) or otlp. Raises BadSetting when the exporter is missing."""
        if where == "off":
            return cls()
        if where == "console":
            return cls(SimpleSpanProcessor(ConsoleSpanExporter(out=sys.stderr, formatter=_one_line)), service)
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        except ImportError:
            raise BadSetting(
                "FLEET_TELEMETRY=otlp needs the exporter: pip install 'celery-agent-fleet[otlp]'"
            ) from None
        return cls(BatchSpanProcessor(OTLPSpanExporter()), service)

    @property
    def on(self) -> bool:
        return self._provider is not None

    def new_traceparent(self) -> str:
        """A W3C traceparent for a goal; empty when spans are off."""
        if not self.on:
            return ""
        return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"

    @contextmanager
    def span(self, name: str, traceparent: str, attributes: Mapping[str, Any]) -> Iterator[trace.Span | None]:
        """A span under the goal's, or under the span that is open in this thread if that is of the same trace."""
        if self._provider is None:
            yield None
            return
        with self._tracer.start_as_current_span(name, context=_parent(traceparent), attributes=attributes) as span:
            yield span

    def here(self, traceparent: str) -> str:
        """The traceparent of the span that is open in this thread, if it is of that trace; else the given one."""
        current = trace.get_current_span().get_span_context()
        if not self.on or not traceparent or current.trace_id != int(traceparent.split("-")[1], 16):
            return traceparent
        return f"00-{current.trace_id:032x}-{current.span_id:016x}-01"

    def begin(self, name: str, traceparent: str, attributes: Mapping[str, Any]) -> trace.Span | None:
        """A span that crosses threads: whoever begins it ends it. None when spans are off."""
        if self._provider is None:
            return None
        return self._tracer.start_span(name, context=_remote(traceparent), attributes=attributes)

    def goal_span(self, traceparent: str, started: float, ended: float, attributes: Mapping[str, Any]) -> None:
        """The root span of a goal, told when it has ended. Times are seconds since 1970."""
        if self._provider is None or not traceparent:
            return
        _, trace_id, span_id, _ = traceparent.split("-")
        self._ids.chosen = (int(trace_id, 16), int(span_id, 16))
        try:
            span = self._tracer.start_span(
                "invoke_workflow", context=trace.set_span_in_context(trace.INVALID_SPAN), start_time=_nanos(started),
                attributes=attributes,
            )  # fmt: skip
        finally:
            self._ids.chosen = None
        span.end(_nanos(ended))

    def close(self) -> None:
        if self._provider is not None:
            self._provider.shutdown()


def failed(span: trace.Span | None, error_type: str) -> None:
    """Mark a span as failed, by the type alone: a message may hold anything."""
    if span is not None:
        span.set_attribute("error.type", error_type)
        span.set_status(Status(StatusCode.ERROR, error_type))


def note(span: trace.Span | None, **attributes: Any) -> None:
    """Attributes known at the end; `__` in a name stands for a dot."""
    if span is not None:
        span.set_attributes({name.replace("__", "."): value for name, value in attributes.items()})


def _parent(traceparent: str) -> Any:
    current = trace.get_current_span().get_span_context()
    if not traceparent or current.trace_id == int(traceparent.split("-")[1], 16):
        return None
    return _remote(traceparent)


def _remote(traceparent: str) -> Any:
    if not traceparent:
        return None
    _, trace_id, span_id, _ = traceparent.split("-")
    remote = SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(1))
    return trace.set_span_in_context(NonRecordingSpan(remote))


def _nanos(seconds: float) -> int:
    return int(seconds * 1e9)


def _one_line(span: Any) -> str:
    return str(span.to_json(indent=None)) + "\n"


TOLD = ("goal", "run", "step", "worker")
"""What a record may say of itself beside its message."""
LIBRARIES = ("celery", "kombu", "httpx", "httpcore", "openai", "anthropic", "alembic", "asyncio")
"""They tell of each message and each request at INFO, and of headers at DEBUG."""


class _JsonLines(logging.Formatter):
    """For programs: one JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {key: getattr(record, key) for key in TOLD if hasattr(record, key)}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class _PlainLines(logging.Formatter):
    """For people: time of day, what happened, and of what. A line starts at the left even where ^C was echoed."""

    def format(self, record: logging.LogRecord) -> str:
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        told = "".join(f" {key}={getattr(record, key)}" for key in TOLD if hasattr(record, key))
        text = f"{clock} {level}{_CONTROL.sub('', record.getMessage())}{told}"
        return "\r" + (f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text)


def log_to_stderr(level: str) -> None:
    """Logs on stderr, with goal, run and step where they are known: lines for people on a terminal, else JSON.

    level: the least that is told of the fleet and of tools; libraries are told of from the next level up. Warnings of
    Python become records.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_PlainLines() if sys.stderr.isatty() else _JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    quieter = {"DEBUG": "INFO", "INFO": "WARNING"}.get(level, level)
    for name in LIBRARIES:
        logging.getLogger(name).setLevel(quieter)
    logging.captureWarnings(True)
