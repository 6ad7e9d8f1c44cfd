"""How much one model call may take, and whether its reply is kept."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Upper bounds of one call. timeout: seconds in all; silence: seconds a stream may pause once it has begun.

    store: whether the provider is asked to keep replies.
    """

    timeout: float = 120.0
    max_tokens: int = 4096
    silence: float = 60.0
    store: bool = False
