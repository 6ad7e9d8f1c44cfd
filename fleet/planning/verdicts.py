"""Reads a joiner's verdict, as text or as JSON."""

import json
import re
from collections.abc import Mapping

from pydantic import TypeAdapter, ValidationError

from fleet.core.plan import Problem
from fleet.core.value import Json
from fleet.core.verdict import Verdict


def _one(kind: str, says: str) -> dict[str, Json]:
    text = {"type": "string"}
    return {
        "type": "object",
        "properties": {"thought": text, "kind": {"const": kind}, says: text},
        "required": ["thought", "kind", says],
        "additionalProperties": False,
    }


VERDICT_SCHEMA: dict[str, Json] = {
    "anyOf": [_one("finish", "answer"), _one("replan", "reason"), _one("ask", "question")],
}
"""The JSON schema of a verdict: thought, kind (finish, replan or ask), and answer, reason or question."""

_VERDICT: TypeAdapter[Verdict] = TypeAdapter(Verdict)
_ACTION = re.compile(r"^[ \t]*\**action\**[ \t]*:\**[ \t]*`*(finish|replan|ask)[ \t]*\(", re.IGNORECASE | re.MULTILINE)
_BARE = re.compile(r"^[ \t]*`*(finish|replan|ask)[ \t]*\(", re.IGNORECASE | re.MULTILINE)
_THOUGHT = re.compile(r"\A\s*\**thought\**\s*:\**\s*", re.IGNORECASE)
_FENCE = re.compile(r"```[a-z]*\s*(\{.*\})\s*```", re.DOTALL)
_SAYS = {"finish": "answer", "replan": "reason", "ask": "question"}
_HOW = 'end with one line "Action: Finish(<answer>)", "Action: Replan(<reason>)" or "Action: Ask(<question>)"'


def parse_verdict(text: str) -> Verdict | Problem:
    """The verdict in a joiner's reply, or a Problem that says how to write one.

    As text: `Thought: ...`, then `Action: Finish(...)`, whose argument reaches from the first bracket to the last `)`
    of the reply, over several lines, and is taken as it is. As JSON: an object of VERDICT_SCHEMA, alone or in a fence.
    """
    bare = text.strip()
    if bare.startswith("{"):
        return _from_json(bare)
    fence = _FENCE.fullmatch(bare)
    if fence:
        return _from_json(fence[1])
    action = _ACTION.search(text) or _BARE.search(text)
    if action:
        return _from_action(text, action)
    fence = _FENCE.search(text)
    return _from_json(fence[1]) if fence else _problem(f"the reply holds no verdict: {_HOW}")


def _from_action(text: str, action: re.Match[str]) -> Verdict | Problem:
    kind, end = action[1].lower(), text.rfind(")")
    if end < action.end():
        return _problem(f"the bracket after {action[1]} is not closed: {_HOW}")
    says = text[action.end() : end].strip()
    thought = _THOUGHT.sub("", text[: action.start()]).strip()
    return _verdict(kind, says, thought)


def _from_json(text: str) -> Verdict | Problem:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as bad:
        return _problem(f"the verdict can't be read as JSON ({str(bad)[:100]})")
    if not isinstance(said, Mapping) or str(said.get("kind")) not in _SAYS:
        return _problem('a verdict has "kind": "finish", "replan" or "ask"')
    name = _SAYS[said["kind"]]
    unknown = set(said) - {"kind", "thought", name}
    value = said.get(name)
    if unknown or value is None:
        return _problem(f'a {said["kind"]} verdict has the fields "thought", "kind" and "{name}", and no other')
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return _verdict(said["kind"], text, str(said.get("thought") or ""))


def _verdict(kind: str, says: str, thought: str) -> Verdict | Problem:
    if not says:
        return _problem(f"the {_SAYS[kind]} is empty: {_HOW}")
    try:
        return _VERDICT.validate_python({"kind": kind, _SAYS[kind]: says, "thought": thought})
    except ValidationError as bad:
        return _problem(f"the verdict can't be read ({bad.errors()[0]['msg']})")


def _problem(message: str) -> Problem:
    return Problem(code="no_verdict", message=message)
