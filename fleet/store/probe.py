"""What a Redis server says of itself, asked once before anything is trusted to it."""

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from fleet.core.value import Value
from fleet.errors import StoreUnreachable
from fleet.settings import mask

OLDEST = (7, 0)


class ServerFacts(Value):
    """kind: `redis` or `valkey`, with its version. policy: maxmemory-policy, or None where the server does not tell."""

    kind: str
    version: tuple[int, ...]
    policy: str | None = None

    @property
    def warning(self) -> str:
        """What an operator has to know, or an empty string."""
        if self.policy == "noeviction":
            return ""
        if self.policy is None:
            return "Redis does not tell its maxmemory-policy: see that it is noeviction, or it may drop live runs"
        return f"Redis has maxmemory-policy {self.policy} and may drop live runs when it is full: set it to noeviction"


def probe(url: str, timeout: float = 3.0) -> ServerFacts:
    """Asks the server at `url`. timeout: seconds to connect, and for each answer.

    Raises StoreUnreachable, in one sentence without the password, for a server that does not answer, refuses, is older
    than 7.0, or a URL that is none.
    """
    try:
        client = redis.Redis.from_url(
            url,
            socket_connect_timeout=timeout,
            socket_timeout=timeout,
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
        )
    except ValueError as refused:
        raise StoreUnreachable(f"the Redis URL {mask(url)} can't be used: {refused}") from None
    try:
        facts = _facts(client)
    except redis.exceptions.AuthenticationError:
        raise StoreUnreachable(f"Redis at {mask(url)} refuses the user or password in its URL") from None
    except (redis.exceptions.RedisError, OSError, ValueError) as refused:
        raise StoreUnreachable(f"Redis at {mask(url)} does not answer: {_reason(refused)}") from None
    finally:
        client.close()
    if facts.version < OLDEST:
        shown = ".".join(map(str, facts.version))
        raise StoreUnreachable(f"Redis at {mask(url)} has version {shown}, and the fleet needs 7.0 or newer")
    return facts


def _facts(client: "redis.Redis") -> ServerFacts:
    server = client.info("server")
    version = str(server.get("redis_version", "0"))
    valkey = server.get("valkey_version")
    return ServerFacts(
        kind=f"valkey {valkey}" if valkey else f"redis {version}",
        version=tuple(int(part) for part in version.split(".") if part.isdigit()),
        policy=_policy(client),
    )


def _policy(client: "redis.Redis") -> str | None:
    try:
        told = client.config_get("maxmemory-policy")
    except redis.exceptions.ResponseError:  # managed servers forbid CONFIG
        return None
    return told.get("maxmemory-policy")


def _reason(refused: Exception) -> str:
    return mask(str(refused)).rstrip(".") or type(refused).__name__
