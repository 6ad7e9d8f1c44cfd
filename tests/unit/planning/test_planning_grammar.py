"""The streaming parser of plan text: a corpus of good and bad plans, and every way to cut them."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from planning_samples import OCEANS, TRENCHES, parse

from fleet.planning.grammar import LONGEST_CALL, PlanParser
from fleet.planning.lines import Garbled, RawCall, RawJoin, RawLine, Thought

MESSY = '''Here is the plan, it's simple (I hope:
Thought: don't panic
```python
1. search("a \\"quoted\\" text (1977)", limit=3)  # first
- 2) search(
    'it\\'s',   # a comment with a " quote
    limit = 2,
)
7: pick("max", ["x", "y"], [1, -2.5e3, $1, ${2.rows.0}])
9. note({"a": [true, False, null, None], 'b': (1, 2,)}, text="""two
10. lines("of text")
""")
12. join()
```
<END_OF_PLAN>
13. search("not in the plan")
'''

BAD = """1. search("open quote)
2. search("fine", [1, 2)
3. search(unquoted)
4. look for it
5. search("x") and more
search("no number")
6. search("x"
7. join("$1")
8. join()"""


def calls(text: str) -> list[tuple[str, str, tuple[Any, ...], dict[str, Any]]]:
    return [(raw.id, raw.tool, raw.args, dict(raw.kwargs)) for raw in parse(text) if isinstance(raw, RawCall)]


def refused(text: str) -> list[Garbled]:
    return [raw for raw in parse(text) if isinstance(raw, Garbled)]


def test_a_messy_but_good_plan_is_read_whole() -> None:
    """R11: keyword arguments, several lines, nested brackets, quotes, gaps in ids, fences, comments, prose."""
    raws = parse(MESSY)
    assert calls(MESSY) == [
        ("1", "search", ('a "quoted" text (1977)',), {"limit": 3}),
        ("2", "search", ("it's",), {"limit": 2}),
        ("7", "pick", ("max", ["x", "y"], [1, -2500.0, "$1", "${2.rows.0}"]), {}),
        ("9", "note", ({"a": [True, False, None, None], "b": [1, 2]},), {"text": 'two\n10. lines("of text")\n'}),
    ]
    assert [raw for raw in raws if isinstance(raw, Garbled)] == []
    assert RawJoin(id="12", line=13) in raws
    assert raws[-1] == Thought(text='13. search("not in the plan")', line=16)
    assert [raw.line for raw in raws if isinstance(raw, RawCall)] == [4, 5, 9, 10]


@pytest.mark.parametrize(
    ("line", "args", "kwargs"),
    [
        ('1. f("Star Wars (1977)")', ("Star Wars (1977)",), {}),
        ("1. f('a, b', x='c=d')", ("a, b",), {"x": "c=d"}),
        (r'1. f("tab\tnew\nline \u00e9 \ud83d\ude00 \x41 \d \$5")', ("tab\tnew\nline é 😀 A \\d \\$5",), {}),
        ("1. f([[1, [2]], {'a': {'b': []}}])", ([[1, [2]], {"a": {"b": []}}],), {}),
        ("1. f($3, ${3.f}, $name)", ("$3", "${3.f}", "$name"), {}),
        ('1. f(x = "y",)', (), {"x": "y"}),
        ("1. f()", (), {}),
        ("01.f(1)", (1,), {}),
        ("Step 1: f(1)<END_OF_PLAN>", (1,), {}),
        ("  1)  f ( +1, -0.5, .5, 1e3 ) # done", (1, -0.5, 0.5, 1000.0), {}),
        ('1. f("# no comment")', ("# no comment",), {}),
        ("1. f('''it's \"so\"''')", ('it\'s "so"',), {}),
        ('1. f("")', ("",), {}),
    ],
)
def test_arguments_are_read_as_python_or_json(line: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """R11"""
    assert calls(line) == [("1", "f", args, kwargs)]


@pytest.mark.parametrize("line", ["join()", "join", "1. join()", "1. join", " join( ) # end", "9) join()<END_OF_PLAN>"])
def test_a_join_may_be_written_in_many_ways(line: str) -> None:
    """R11"""
    assert [type(raw) for raw in parse(line)] == [RawJoin]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("1. search for it", "not a call"),
        ('1. search("a" "b")', "comma is missing"),
        ("1. search(max)", 'in quotes: "max"'),
        ("1. calc($1 * 2)", "not in quotes"),
        ('1. search("a"', "not closed"),
        ('1. search("a"]', "closed by another kind"),
        ("1. search([1, 2)", "not closed"),
        ('1. search("a") then stop', "follows the closing bracket"),
        ('1. search(q="a", "b")', "without a name"),
        ('1. search(q="a", q="b")', "given twice"),
        ("1. search(007)", "put it in quotes"),
        ("1. search(1e999)", "too large"),
        ("1. search(" + "9" * 5000 + ")", "put it in quotes"),
        ('1. search("\\ud800")', "surrogate"),
        ('1. search("\\u12")', "hexadecimal"),
        ("1. search({1: 2, 3})", "colon is missing"),
        ("1. search(" + "[" * 100 + "]" * 100 + ")", "nested more than 64"),
        ("1. search(,)", "no value"),
        ("1. search(__import__('os'))", "in quotes"),
        ("1. search(lambda: 0)", "in quotes"),
        ('1. join("$1")', "join takes no arguments"),
        ('search("x")', "needs its number"),
        ("search(", "needs its number"),
    ],
)
def test_a_line_that_cannot_be_read_says_why(line: str, says: str) -> None:
    """R11: refused in words that a planner can act on, and never run as code."""
    (found,) = refused(line)
    assert says in found.problem.message
    assert found.problem.line == 1


def test_no_line_of_a_bad_plan_is_dropped_and_the_good_ones_are_still_read() -> None:
    """R11: an open quote does not swallow the rest of the plan."""
    raws = parse(BAD)
    assert [raw.problem.step for raw in raws if isinstance(raw, Garbled)] == ["1", "2", "3", "4", "5", "", "6", "7"]
    assert isinstance(raws[-1], RawJoin)
    told = "\n".join(getattr(raw, "text", "join") for raw in raws)
    assert all(line in told for line in BAD.split("\n")[:-1])


def test_prose_is_a_thought_and_not_an_error() -> None:
    """R11"""
    text = "Sure! I'd look (first.\nmax() is a function.\n3.5 million people\njoin the results\n10:30 is late"
    assert [type(raw) for raw in parse(text)] == [Thought] * 5


def test_a_call_comes_out_with_the_end_of_its_line() -> None:
    """R13: without the planner's next token."""
    parser = PlanParser()
    assert parser.feed('1. search("a")') == []
    assert [raw.id for raw in parser.feed("\n") if isinstance(raw, RawCall)] == ["1"]
    assert parser.feed('2. search(\n"a"\n)') == []
    assert [raw.id for raw in parser.feed("\n") if isinstance(raw, RawCall)] == ["2"]
    assert parser.feed("3. join()") == []
    assert parser.close() == [RawJoin(id="3", line=5)]


def test_a_call_that_is_far_too_long_is_refused_in_bounded_memory() -> None:
    """R11"""
    one_line = '1. search("' + "x" * (LONGEST_CALL * 2) + '")\n2. search("b")\n'
    many_lines = "1. search('\n" + "x\n" * LONGEST_CALL + "2. search('b')\n"
    for text in (one_line, many_lines):
        raws = [raw for raw in parse(text) if not isinstance(raw, Thought)]
        assert [raw.problem.step for raw in raws if isinstance(raw, Garbled)][:1] == ["1"]
        assert [raw.id for raw in raws if isinstance(raw, RawCall)] == ["2"]
        assert all(len(raw.text) <= 1000 for raw in raws if isinstance(raw, Garbled))


def test_many_open_calls_are_read_in_linear_time() -> None:
    """R11: 20,000 lines, each with an open bracket."""
    raws = parse("".join(f"{n}. search([\n" for n in range(1, 20_001)))
    assert len(raws) == 20_000


def cut(text: str, places: list[int]) -> list[RawLine]:
    parser, last, found = PlanParser(), 0, []
    for place in [*sorted(place % (len(text) + 1) for place in places), len(text)]:
        found += parser.feed(text[last:place])
        last = place
    return found + parser.close()


plans = st.one_of(
    st.sampled_from([MESSY, BAD, TRENCHES, OCEANS, TRENCHES.replace("\n", "\r\n"), "", "\r", "1. f('''a\r\nb''')\r\n"]),
    st.text(alphabet=st.sampled_from(list("12. f(\"',)[]{}#`\\\n\r$ajoin")), max_size=60),
    st.lists(st.sampled_from([*MESSY.splitlines(), *BAD.splitlines()]), max_size=8).map("\n".join),
)


@given(plans, st.lists(st.integers(0, 2000), max_size=12))
@example(MESSY, list(range(len(MESSY))))
@example(BAD, list(range(len(BAD))))
def test_the_same_lines_come_out_for_every_way_of_cutting_the_text(text: str, places: list[int]) -> None:
    """R13"""
    assert cut(text, places) == parse(text)


@given(plans)
def test_every_word_of_a_plan_is_in_some_line(text: str) -> None:
    """R11: never drops a line (fences, blank lines and the end mark say nothing)."""
    told = "\n".join(getattr(raw, "text", "join") for raw in parse(text))
    for line in text.replace("\r", "\n").split("\n"):
        said = line.strip()
        if said and "`" not in said and "END_OF_PLAN" not in said and "join" not in said:
            assert said in told.replace("\r", "\n")
