"""A joiner's verdict, as text and as JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.core.plan import Problem
from fleet.core.verdict import Ask, Finish, Replan, Verdict
from fleet.planning.verdicts import VERDICT_SCHEMA, parse_verdict


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (
            "Thought: It is the one.\nAction: Finish(Star Wars (1977))",
            Finish(answer="Star Wars (1977)", thought="It is the one."),
        ),
        ("Action: Finish(a\n\nb (c)\nd)\n", Finish(answer="a\n\nb (c)\nd")),
        ("Thought: a\nb\nAction: Finish(:-) )", Finish(answer=":-)", thought="a\nb")),
        ("Action: Replan(not found (HTTP 502); try another)", Replan(reason="not found (HTTP 502); try another")),
        ("action: ask(Which one?)", Ask(question="Which one?")),
        ("**Thought:** x\n**Action:** Finish(7)<END_OF_RESPONSE>", Finish(answer="7", thought="x")),
        ("Finish(7)", Finish(answer="7")),
        (
            "Thought: I could Finish(now) but no\nAction: Replan(x)",
            Replan(reason="x", thought="I could Finish(now) but no"),
        ),
        ('Action: Finish({"a": 1})', Finish(answer='{"a": 1}')),
        ("```\nThought: t\nAction: Finish(7)\n```", Finish(answer="7", thought="```\nThought: t")),
        ('{"thought": "t", "kind": "finish", "answer": "a)\\n(b"}', Finish(answer="a)\n(b", thought="t")),
        ('```json\n{"kind": "replan", "reason": "r"}\n```', Replan(reason="r")),
        ('Here:\n```\n{"kind": "ask", "question": "q"}\n```\nbye', Ask(question="q")),
        ('{"kind": "finish", "answer": 7.84}', Finish(answer="7.84")),
    ],
)
def test_a_verdict_is_read_whole(text: str, verdict: Verdict) -> None:
    """R19: brackets and newlines in an answer survive."""
    assert parse_verdict(text) == verdict


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I think it is done.",
        "Action: Finish(cut off",
        "Action: Finish()",
        "Action: Stop(x)",
        "The answer is Finish(7)",
        '{"kind": "finish"}',
        '{"kind": "stop", "answer": "x"}',
        '{"kind": "finish", "answer": "x", "more": 1}',
        '{"kind": ["finish"], "answer": "x"}',
        '{"kind": "finish", "answer": ""}',
        '{"kind": "finish", "answer": "x"',
        "{" * 100_000,
        '{"a":' * 50_000,
        "[]",
    ],
)
def test_what_cannot_be_read_is_a_problem_and_not_a_guess(text: str) -> None:
    """R19"""
    found = parse_verdict(text)
    assert isinstance(found, Problem)
    assert found.code == "no_verdict"


@given(st.text(min_size=1).filter(lambda text: text.strip() == text))
def test_every_answer_survives_both_forms(answer: str) -> None:
    """R19"""
    assert parse_verdict(f"Thought: t\nAction: Finish({answer})") == Finish(answer=answer, thought="t")
    assert parse_verdict(json.dumps({"kind": "finish", "answer": answer})) == Finish(answer=answer)


@given(st.text())
def test_any_reply_is_a_verdict_or_a_problem(text: str) -> None:
    """R19"""
    assert isinstance(parse_verdict(text), Finish | Replan | Ask | Problem)


def test_the_schema_says_the_three_kinds() -> None:
    assert [one["properties"]["kind"]["const"] for one in VERDICT_SCHEMA["anyOf"]] == ["finish", "replan", "ask"]
