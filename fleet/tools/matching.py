"""Regular expressions that a model wrote, matched in a process that can be killed.

`re` holds the interpreter lock while it matches and can't be interrupted, so that a bad pattern would silence a whole
worker; here it costs its own process two seconds.
"""

import json
import subprocess
import sys

from fleet.core.value import Json

LONGEST_TEXT = 100_000
LONGEST_PATTERN = 1000
SECONDS = 2.0
PROGRAM = """
import itertools, json, re, sys
pattern, text, most = json.load(sys.stdin)
try:
    found = re.compile(pattern)
except (re.error, OverflowError, RecursionError) as wrong:
    print(json.dumps({"error": str(wrong)}))
else:
    some = itertools.islice(found.finditer(text), most)
    values = [m.group(0) if not m.groups() else m.group(1) if len(m.groups()) == 1 else m.groups() for m in some]
    print(json.dumps({"values": values}))
"""


class BadPattern(Exception):
    """A pattern is not a regular expression."""


class TooSlow(Exception):
    """A pattern had not been matched when its time was over."""


def find_all(pattern: str, text: str, most: int = 1000, within: float = SECONDS) -> list[Json]:
    """Every match of the pattern, at most `most`: its only group if it has one, else its groups or the whole.

    within: seconds. Raises BadPattern, TooSlow.
    """
    try:
        done = subprocess.run(  # noqa: S603 - the program is ours, pattern and text are data on its standard input
            [sys.executable, "-I", "-S", "-W", "ignore", "-c", PROGRAM],
            input=json.dumps([pattern, text, most]).encode(),
            capture_output=True,
            timeout=within,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TooSlow(f"no answer within {within:g} s") from None
    if done.returncode != 0:
        raise BadPattern("it can't be matched")
    answer = json.loads(done.stdout)
    if "error" in answer:
        raise BadPattern(answer["error"])
    values: list[Json] = answer["values"]
    return values
