"""extract, summarise, model, noop and sleep."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fleet.core.outcome import Failure, FailureClass
from fleet.llm.port import ModelFailed, ModelRequest, Reply
from fleet.tools.builtin.extract import extract
from fleet.tools.builtin.model import model
from fleet.tools.builtin.summarise import summarise
from fleet.tools.builtin.testing_aids import noop, sleep
from fleet.tools.context import ToolContext
from fleet.tools.matching import TooSlow, find_all
from fleet.tools.prose import sentences
from fleet.tools.tool import Tool, ToolFailed

LETTER = (
    "On 3 May 2021 it fell by -4.5% to 1,250.75 dollars, i.e. more than US$1.5. See https://a.example/x?y=1). "
    "Dr. Who (v1.2) wrote to a.b@c.example on 2021-06-01."
)
HITS = [
    {"source": "a.md#1", "text": "Pumped hydro stores energy in water. It is an old technology.", "score": 2.0},
    {"source": "b.md#2", "text": "The efficiency of hydrogen is 35 percent. Cats purr when they sleep.", "score": 1.0},
]


class Echo:
    """A model that gives back what it was asked, or fails."""

    name = "echo"

    def __init__(self, failure: Failure | None = None) -> None:
        self.failure = failure
        self.asked: list[ModelRequest] = []

    async def complete(self, request: ModelRequest) -> Reply:
        self.asked.append(request)
        if self.failure:
            raise ModelFailed(self.failure)
        return Reply(text=f"said: {request.messages[-1].text}")

    async def stream(self, request: ModelRequest) -> AsyncIterator[str | Reply]:
        yield await self.complete(request)


def run(tool: Tool, ctx: ToolContext | None = None, **args: Any) -> Any:
    given = tool.call(tool.prepare(args), ctx or ToolContext())

    async def awaited() -> Any:
        return await given

    return asyncio.run(awaited()) if tool.is_async else given


def failed(tool: Tool, ctx: ToolContext | None = None, **args: Any) -> Failure:
    with pytest.raises(ToolFailed) as caught:
        run(tool, ctx, **args)
    return caught.value.failure


@pytest.mark.parametrize(
    ("what", "found"),
    [
        ("number", 3),
        ("numbers", [3, 2021, -4.5, 1250.75, 1.5, 1, 2021, 6, 1]),
        ("dates", ["3 May 2021", "2021-06-01"]),
        ("urls", ["https://a.example/x?y=1"]),
        ("emails", ["a.b@c.example"]),
        (
            "first_sentence",
            "On 3 May 2021 it fell by -4.5% to 1,250.75 dollars, i.e. more than US$1.5.",
        ),
        (r"\d+%", ["5%"]),
        (r"(\d+)%", ["5"]),
        (r"(\w+)@(\w+)", [["b", "c"]]),
        (r"(?i)DR\. (\w+)", ["Who"]),
    ],
)
def test_extract_finds_what_it_is_asked_for(what: str, found: Any) -> None:
    assert run(extract, text=LETTER, what=what) == found


def test_extract_reads_what_search_gave() -> None:
    assert run(extract, text=HITS, what="number") == 35
    assert run(extract, text={"url": "u", "text": "It costs 7 dollars."}, what="number") == 7


def test_extract_says_when_there_is_nothing() -> None:
    assert failed(extract, text="no figures", what="numbers").type == "not_found"
    assert failed(extract, text="no figures", what="number").type == "not_found"
    assert failed(extract, text="no figures", what="x+").type == "not_found"
    assert failed(extract, text=5, what="numbers").type == "bad_argument"
    assert failed(extract, text="1" * 100_001, what="numbers").type == "bad_argument"
    assert failed(extract, text="a", what="(").type == "bad_pattern"


def test_a_pattern_that_never_ends_is_ended() -> None:
    """A bad regular expression holds the interpreter lock, and would silence a whole worker's heartbeat."""
    with pytest.raises(TooSlow):
        find_all(r"(a+)+$", "a" * 5000 + "b", within=0.5)
    done = threading.Event()
    worker = threading.Thread(target=lambda: (failed(extract, text="a" * 5000 + "b", what=r"(a+)+$"), done.set()))
    worker.start()
    beats = 0
    while not done.wait(0.02):
        beats += 1
    worker.join()
    assert beats > 10


def test_sentences_end_where_a_reader_ends_them() -> None:
    text = (
        'It is 3.5 m high, i.e. tall. "Why?" asked J. Doe. Dr. No said: approx. 5 km. Then (at last.) It ended! 7 left.'
    )
    assert sentences(text) == [
        "It is 3.5 m high, i.e. tall.",
        '"Why?" asked J. Doe.',
        "Dr. No said: approx. 5 km.",
        "Then (at last.)",
        "It ended!",
        "7 left.",
    ]


def test_a_summary_keeps_the_sources_of_its_sentences() -> None:
    text = run(summarise, text=HITS, sentences=2, query="efficiency of hydrogen")
    assert "The efficiency of hydrogen is 35 percent. [b.md#2]" in text
    assert run(summarise, text=HITS, sentences=1, query="hydrogen") == (
        "The efficiency of hydrogen is 35 percent. [b.md#2]"
    )


def test_a_summary_is_no_longer_than_asked_and_in_the_order_of_the_text() -> None:
    text = "Wind turns the rotor. The rotor turns the shaft. Birds sing. The shaft turns the generator."
    got = run(summarise, text=text, sentences=2)
    chosen = sentences(got)
    assert len(chosen) == 2
    assert [text.index(each) for each in chosen] == sorted(text.index(each) for each in chosen)
    assert run(summarise, text=["One thing.", "Another thing."], sentences=9) == "One thing. Another thing."


def test_a_summary_of_nothing_is_misuse() -> None:
    assert failed(summarise, text=[]).type == "bad_argument"
    assert failed(summarise, text={"a": 1}).cls is FailureClass.MISUSE


def test_a_summary_by_a_model_asks_it_and_without_one_chooses_sentences() -> None:
    echo = Echo()
    said = run(
        summarise, ToolContext(model=echo, idempotency_key="k"), text=HITS, by="model", query="cats", sentences=2
    )
    assert "at most 2 sentences. It is to be about: cats." in said
    assert "[a.md#1] Pumped hydro" in said
    assert echo.asked[0].key == "k"
    assert run(summarise, text="One thing.", by="model") == "One thing."
    assert run(summarise, ToolContext(model=echo), text="One thing.") == "One thing."
    assert len(echo.asked) == 1


def test_model_asks_the_light_model_once() -> None:
    """R1: the call carries the key under which its answer is found again."""
    echo = Echo()
    ctx = ToolContext(model=echo, idempotency_key="k")
    assert model.spec.model
    assert run(model, ctx, prompt="Name a $1 colour.") == "said: Name a $1 colour."
    said = run(model, ctx, prompt="Which {one} costs $5?", context={"text": "$3 and ${4.x}"})
    assert '{"text": "$3 and ${4.x}"}' in said
    assert "Which {one} costs $5?" in said
    assert [each.purpose for each in echo.asked] == ["step", "step"]
    assert echo.asked[0].key == "k"


def test_without_a_model_the_way_to_one_is_told() -> None:
    failure = failed(model, prompt="Hi")
    assert (failure.type, failure.cls) == ("no_model", FailureClass.PERMANENT)
    assert "FLEET_STEP_MODEL" in failure.message


def test_what_a_model_failed_of_is_what_the_tool_failed_of() -> None:
    """R30: a transient failure stays one, so that the engine retries it."""
    limit = Failure(cls=FailureClass.TRANSIENT, type="http_429", message="too many", retry_after=3)
    assert failed(model, ToolContext(model=Echo(limit)), prompt="Hi") == limit


def test_noop_gives_back_its_argument() -> None:
    assert run(noop, value={"a": [1, None]}) == {"a": [1, None]}
    assert run(noop) is None


def test_sleep_sleeps_and_stops_when_it_is_cancelled() -> None:
    assert run(sleep, seconds=0.01) == 0.01
    began = time.monotonic()
    assert failed(sleep, ToolContext(is_cancelled=lambda: True), seconds=3600).type == "cancelled"
    assert time.monotonic() - began < 5
    assert failed(sleep, seconds=-1).type == "bad_argument"
