"""The model port: one call with a reply, or one call whose text is streamed."""

from collections.abc import AsyncIterator, Mapping
from typing import Literal, Protocol, runtime_checkable

from pydantic import NonNegativeFloat, PositiveInt

from fleet.core.budget import Usage
from fleet.core.outcome import Failure, FailureClass
from fleet.core.value import Json, Value
from fleet.errors import ModelUnavailable

_NOTHING = Usage()


class Message(Value):
    role: Literal["system", "user", "assistant"]
    text: str


class ModelRequest(Value):
    """One turn. purpose: who asks. reply_schema: JSON schema the reply's text must meet. key: idempotency key."""

    purpose: Literal["planner", "joiner", "step"]
    messages: tuple[Message, ...]
    reply_schema: Mapping[str, Json] | None = None
    max_tokens: PositiveInt = 4096
    temperature: NonNegativeFloat = 0.0
    timeout: NonNegativeFloat = 120.0
    key: str = ""


class Reply(Value):
    """The whole answer. finish: `stop`, `length` (cut by max_tokens), or the provider's own word."""

    text: str
    usage: Usage = Usage()
    model: str = ""
    finish: str = "stop"


class Recalled(Value):
    """What a provider says of a call whose end nobody knows. reply: what it answered, where it keeps that.

    made: False where it is certain that the call never reached the provider.
    """

    reply: Reply | None = None
    made: bool = True


class ModelFailed(Exception):
    """A call that came to nothing. failure says whether to try again; usage: what it cost all the same, where known."""

    def __init__(self, failure: Failure, usage: Usage = _NOTHING) -> None:
        self.failure = failure
        self.usage = usage
        super().__init__(failure.message)


class Unconfigured(ModelFailed, ModelUnavailable):
    """A call of a model that can't be used as it is set up: no key, no package, no such provider."""

    def __init__(self, sentence: str) -> None:
        super().__init__(Failure(cls=FailureClass.PERMANENT, type="unconfigured", message=sentence))


class Model(Protocol):
    """What the engine asks of a model. Both methods run on the worker's event loop and may be called concurrently.

    complete gives the reply. stream gives text deltas as they come, and as its last item the Reply with the whole
    text. Both raise ModelFailed; a stream may raise it after some deltas.
    """

    name: str

    async def complete(self, request: ModelRequest) -> Reply: ...

    def stream(self, request: ModelRequest) -> AsyncIterator[str | Reply]: ...


@runtime_checkable
class Recalls(Protocol):
    """A model whose provider may keep replies, so that one which a worker died over is asked back, and not made again.

    recall gives what is known of the call that carried `key` (ModelRequest.key); it asks for no new reply, and is not
    billed. It raises ModelFailed, transient, where the provider can't be asked now.
    """

    async def recall(self, key: str) -> Recalled: ...
