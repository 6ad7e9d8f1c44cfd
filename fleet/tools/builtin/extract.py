"""extract: numbers, dates, addresses or any pattern out of a text, without a model."""

import re
from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import Field

from fleet.core.outcome import FailureClass
from fleet.core.value import Json
from fleet.tools.decorator import tool
from fleet.tools.matching import LONGEST_PATTERN, LONGEST_TEXT, BadPattern, TooSlow, find_all
from fleet.tools.passages import passages
from fleet.tools.prose import sentences
from fleet.tools.tool import ToolFailed

MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
NUMBER = re.compile(
    r"(?<![\w.,])[-+−]?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d,])|(?<![\w.])[-+−]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
)
DATE = re.compile(
    rf"\b\d{{4}}-\d{{2}}-\d{{2}}\b|\b\d{{1,2}}\.? {MONTH} \d{{4}}\b|\b{MONTH} \d{{1,2}}, \d{{4}}\b|\b{MONTH} \d{{4}}\b",
    re.IGNORECASE,
)
URL = re.compile(r"\bhttps?://[^\s<>\"'\])}]+[^\s<>\"'\])}.,;:!?]")
EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+")


@tool(effect="pure", seconds=0.05, timeout=15)
def extract(
    text: Annotated[Json, "a text, a list of texts, or what search or fetch gave; at most 100000 characters"],
    what: Annotated[
        str,
        Field(
            min_length=1,
            max_length=LONGEST_PATTERN,
            description="number, numbers, dates, urls, emails, first_sentence, or a regular expression",
        ),
    ],
) -> Json:
    """Find in a text: number (the first one), numbers, dates, urls, emails, first_sentence, or a regular expression.

    A pattern gives the list of its matches: of its group if it has one, of its groups as lists if it has several. It is
    matched for two seconds at most. Raises ToolFailed: not_found, bad_pattern, too_slow.
    """
    whole = "\n".join(passage.text for passage in passages(text, "extract"))
    if len(whole) > LONGEST_TEXT:
        message = f'extract: argument "text" has {len(whole)} characters; at most {LONGEST_TEXT} are searched'
        raise ToolFailed("bad_argument", message, FailureClass.MISUSE)
    finder = FINDERS.get(what)
    found = finder(whole) if finder else _by_pattern(what, whole)
    if found in ([], "", None):
        raise ToolFailed("not_found", f'the text holds nothing that is "{what[:80]}"')
    return found


def _by_pattern(pattern: str, text: str) -> list[Json]:
    try:
        return find_all(pattern, text)
    except BadPattern as wrong:
        words = ", ".join(FINDERS)
        message = f'"{pattern[:80]}" is neither one of {words} nor a regular expression: {wrong}'
        raise ToolFailed("bad_pattern", message, FailureClass.MISUSE) from None
    except TooSlow as late:
        message = f'"{pattern[:80]}" takes too long on this text ({late}): make it simpler'
        raise ToolFailed("too_slow", message, FailureClass.MISUSE) from None


def _numbers(text: str) -> list[Json]:
    return [_value(match) for match in NUMBER.findall(text)]


def _value(written: str) -> float | int:
    plain = written.replace(",", "").replace("−", "-")
    return int(plain) if re.fullmatch(r"[-+]?\d{1,15}", plain) else float(plain)


def _first_number(text: str) -> Json:
    match = NUMBER.search(text)
    return _value(match[0]) if match else None


def _first_sentence(text: str) -> Json:
    return next(iter(sentences(text)), None)


FINDERS: Mapping[str, Callable[[str], Json]] = {
    "number": _first_number,
    "numbers": _numbers,
    "dates": DATE.findall,
    "urls": URL.findall,
    "emails": EMAIL.findall,
    "first_sentence": _first_sentence,
}
