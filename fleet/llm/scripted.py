"""The scripted model, which ships with the product: it answers from recorded turns, after recorded delays."""

import asyncio
import hashlib
import json
import logging
import re
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from fleet.core.outcome import Failure, FailureClass
from fleet.llm.observed import Seen, agrees, observed
from fleet.llm.port import ModelFailed, ModelRequest, Recalled, Reply
from fleet.llm.turns import Fail, Observation, Turn, read_turns

__all__ = ["Fail", "Observation", "ScriptedModel", "Turn"]

log = logging.getLogger("fleet.scripted")


class ScriptedModel:
    """Gives for each prompt the turn that was recorded for it (fleet.llm.turns), and never makes up another.

    The turn is found by what the prompt says alone, so that the same prompt has the same answer in every process and in
    any order of calls. A turn that expects observations is given only if the prompt holds exactly those: a plan that
    was carried out wrongly does not end in the recorded answer. time_scale: factor on the recorded delays. store: a
    folder that keeps replies by the key of their request, from the moment in which they are asked for, like a provider
    that works on whether or not anybody reads.
    Raises ModelFailed: `no_recorded_turn`, `timeout` where the delay is longer than the request allows, or what the
    turn says.
    """

    def __init__(
        self, turns: Iterable[Turn], *, name: str = "scripted", time_scale: float = 1.0, store: Path | None = None
    ) -> None:
        self.name = name
        self._store = store
        self.time_scale = time_scale
        self._turns: dict[tuple[str, int], list[Turn]] = defaultdict(list)
        for turn in turns:
            self._turns[turn.purpose, turn.round].append(turn)

    @classmethod
    def read(cls, path: Path, *, time_scale: float = 1.0, store: Path | None = None) -> "ScriptedModel":
        """A model that answers from the turns in a file. Raises BadInput and OSError."""
        return cls(read_turns(path), time_scale=time_scale, store=store)

    async def complete(self, request: ModelRequest) -> Reply:
        items = [item async for item in self.stream(request)]
        reply = items[-1]
        assert isinstance(reply, Reply)  # noqa: S101 - the last item of a stream, for the type checker
        return reply

    async def stream(self, request: ModelRequest) -> AsyncIterator[str | Reply]:
        log.info("asked: %s", request.key or request.purpose)  # a witness of each call, apart from the ledger
        turn, text = self._answer(request)
        reply = Reply(text=text, usage=turn.usage, model=self.name)
        if turn.fail is None:
            self._keep(request.key, reply)
        chunks = _chunks(turn, text)
        clock = _Clock(turn.delay_s * self.time_scale, request.timeout)
        for number, chunk in enumerate(chunks, 1):
            await clock.until(number / len(chunks))
            if turn.fail is not None and number > turn.fail.after_chunks:
                break
            yield chunk
        if turn.fail is not None:
            await clock.until(1.0 if not chunks else 0.0)
            raise ModelFailed(_failure(turn.fail), turn.usage)
        await clock.until(1.0)
        yield reply

    async def recall(self, key: str) -> Recalled:
        """What is kept under a key. Where replies are kept, one that is not there was never asked for."""
        if self._store is None or not key:
            return Recalled()
        try:
            text = (self._store / _name(key)).read_text(encoding="utf-8")
        except FileNotFoundError:
            return Recalled(made=False)
        return Recalled(reply=Reply.model_validate_json(text))

    def _keep(self, key: str, reply: Reply) -> None:
        if self._store is None or not key:
            return
        self._store.mkdir(parents=True, exist_ok=True)
        draft = self._store / f"{uuid.uuid4().hex}.draft"
        draft.write_text(reply.model_dump_json(exclude_defaults=True), encoding="utf-8")
        draft.replace(self._store / _name(key))

    def _answer(self, request: ModelRequest) -> tuple[Turn, str]:
        prompt = _prompt(request)
        blocks = observed(prompt)
        seen = [each for block in blocks for each in block]
        number = _round(request.purpose, len(blocks), seen)
        fitting = [turn for turn in self._turns[request.purpose, number] if _fits(turn, prompt)]
        if not fitting:
            said = f"no turn is recorded for {request.purpose}, round {number}: {prompt[:80]!r}"
            raise ModelFailed(Failure(type="no_recorded_turn", message=said))
        turn = max(fitting, key=lambda each: (len(each.goal), len(each.contains)))
        expected = turn.expect_observations
        return turn, turn.text if expected is None or agrees(seen, expected) else turn.otherwise


class _Clock:
    """Waits for parts of a delay, counted from its own making, so that lateness does not add up."""

    def __init__(self, delay: float, timeout: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._start = self._loop.time()
        self._delay = delay
        self._timeout = timeout

    async def until(self, part: float) -> None:
        """Wait until that part (0 to 1) of the delay is over. Raises ModelFailed past the timeout (0: none)."""
        due = self._delay * part
        late = bool(self._timeout) and due > self._timeout
        end = self._start + (self._timeout if late else due)
        await asyncio.sleep(max(0.0, end - self._loop.time()))
        if late:
            said = f"no answer within {self._timeout:g} s"
            raise ModelFailed(Failure(cls=FailureClass.TRANSIENT, type="timeout", message=said))


def _name(key: str) -> str:
    return f"{hashlib.sha256(key.encode()).hexdigest()}.json"


def _prompt(request: ModelRequest) -> str:
    """All that the user said. A repair or a further step stands in a message of its own, behind the goal's."""
    return "\n".join(message.text for message in request.messages if message.role == "user")


def _round(purpose: str, blocks: int, seen: list[Seen]) -> int:
    match purpose:
        case "planner":
            return blocks + 1
        case "joiner":
            return max(blocks, 1)
        case _:
            return len(seen) + 1


def _fits(turn: Turn, prompt: str) -> bool:
    return turn.goal in prompt and all(text in prompt or _quoted(text) in prompt for text in turn.contains)


def _quoted(text: str) -> str:
    """The text as it stands within JSON."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _chunks(turn: Turn, text: str) -> list[str]:
    if turn.chunks and text == turn.text:
        return list(turn.chunks)
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _failure(fail: Fail) -> Failure:
    return Failure(cls=fail.cls, type=fail.type, message=fail.message, retry_after=fail.retry_after)
