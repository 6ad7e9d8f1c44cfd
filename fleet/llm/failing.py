"""What a provider's error means to the engine."""

from pydantic_ai import exceptions as ai

from fleet.core.outcome import Failure, FailureClass

LONGEST = 300
"""Characters of a provider's message that are kept."""

AGAIN = frozenset({408, 409, 425, 429})
"""Statuses below 500 that speak of the moment and not of the request."""

KINDS: tuple[tuple[type[Exception], FailureClass, str], ...] = (
    (ai.ModelAuthenticationError, FailureClass.PERMANENT, "unauthorised"),
    (ai.ModelNotFoundError, FailureClass.PERMANENT, "unknown_model"),
    (ai.ModelContextWindowExceededError, FailureClass.PERMANENT, "too_long"),
    (ai.ModelQuotaExceededError, FailureClass.PERMANENT, "quota_exceeded"),
    (ai.ModelRequestRejectedError, FailureClass.PERMANENT, "bad_request"),
    (ai.ContentFilterError, FailureClass.PERMANENT, "content_filter"),
    (ai.UserError, FailureClass.PERMANENT, "bad_request"),
    (ai.ModelRateLimitError, FailureClass.TRANSIENT, "rate_limited"),
    (ai.ModelUnavailableError, FailureClass.TRANSIENT, "unavailable"),
    (ai.ModelServerError, FailureClass.TRANSIENT, "server_error"),
    (ai.ModelTimeoutError, FailureClass.TRANSIENT, "timeout"),
    (ai.ModelConnectionError, FailureClass.TRANSIENT, "connection"),
    (TimeoutError, FailureClass.TRANSIENT, "timeout"),
    (OSError, FailureClass.TRANSIENT, "connection"),
)
"""The first that fits counts: a class stands before those that it is a case of."""


def failure_of(error: Exception, name: str, secrets: tuple[str, ...] = ()) -> Failure:
    """Map an exception of a model call. name: the model, for the message, from which every secret is taken out."""
    cls, kind = _kind(error)
    # What a provider says to a bad key may hold the key itself, also in part.
    said = "it refused the key" if kind == "unauthorised" else _said(error)
    for secret in secrets:
        said = said.replace(secret, "***")
    wait = getattr(error, "retry_after", None) if cls is FailureClass.TRANSIENT else None
    return Failure(cls=cls, type=kind, message=f"{name}: {said[:LONGEST]}", retry_after=wait)


def _kind(error: Exception) -> tuple[FailureClass, str]:
    for known, cls, kind in KINDS:
        if isinstance(error, known):
            return cls, kind
    return _other(error)


def _other(error: Exception) -> tuple[FailureClass, str]:
    if isinstance(error, ai.ModelHTTPError) and error.status_code < 500 and error.status_code not in AGAIN:
        return FailureClass.PERMANENT, "bad_request"
    if isinstance(error, ai.ModelAPIError | ai.UnexpectedModelBehavior):
        return FailureClass.TRANSIENT, "broken_reply"
    if "httpx" in type(error).__module__:
        return FailureClass.TRANSIENT, "connection"
    return FailureClass.PERMANENT, "broken_call"


def _said(error: Exception) -> str:
    if not isinstance(error, ai.ModelHTTPError):
        return str(error) or type(error).__name__
    return f"status {error.status_code}: {_message(error.body)}"


def _message(body: object) -> str:
    """The message within an error body, wherever the provider put it."""
    if not isinstance(body, dict):
        return str(body or "no body")
    inner = body.get("error", body)
    return str(inner.get("message") or inner) if isinstance(inner, dict) else str(inner)
