"""What commands print: data on stdout, talk on stderr, and never a control character that others wrote."""

import json
import re
import sys
from pathlib import Path
from typing import Any

from fleet.errors import FleetFault, NotNow

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def talk(sentence: str) -> None:
    """A line for people, on stderr."""
    sys.stderr.write(printable(sentence) + "\n")
    sys.stderr.flush()


def over_echo() -> None:
    """What is said next goes over the ^C that a terminal has echoed."""
    if sys.stderr.isatty():
        sys.stderr.write("\r")


def short(path: Path) -> Path:
    """The path as it is seen from here, where that is shorter."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def data(text: str) -> None:
    """A line that a pipe may carry on, on stdout."""
    sys.stdout.write(printable(text) + "\n")
    sys.stdout.flush()


def document(value: object) -> None:
    """One JSON document."""
    sys.stdout.write(json.dumps(jsonable(value), indent=2, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def line(value: object) -> None:
    """One line of a stream of JSON lines."""
    sys.stdout.write(json.dumps(jsonable(value), ensure_ascii=False) + "\n")
    sys.stdout.flush()


def fault(error: FleetFault) -> dict[str, Any]:
    """A refusal as JSON. retry_after: seconds to wait before the same may work, where it may."""
    told = {"error": str(error), "exit_code": error.exit_code}
    return told | ({"retry_after": error.retry_after} if isinstance(error, NotNow) else {})


def printable(text: str) -> str:
    """The text without control characters, save tab and newline."""
    return _CONTROL.sub("", text)


def jsonable(value: object) -> Any:
    """What JSON can hold of pydantic values, dataclasses, named tuples and enums."""
    from pydantic_core import to_jsonable_python

    if hasattr(value, "_asdict"):
        value = value._asdict()
    return to_jsonable_python(value)


def in_words(answer: object) -> str:
    """An answer for people: text as it is, anything else as JSON."""
    return answer if isinstance(answer, str) else json.dumps(jsonable(answer), indent=2, ensure_ascii=False)
