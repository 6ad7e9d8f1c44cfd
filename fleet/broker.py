"""Kombu's Redis transport for messages that are only hints: what a worker has taken, Redis does not keep.

A wake-up that is lost is told again by the sweeper, so the bookkeeping of unacknowledged messages would protect
nothing; it is four commands a message, and one Redis client built for each of them. One channel keeps one client.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from kombu.transport import redis, virtual


class Channel(redis.Channel):
    """Acknowledges in memory; on the way out gives back what no slot has taken."""

    QoS = virtual.QoS  # type: ignore[assignment]
    _restore = virtual.Channel._restore  # type: ignore[assignment]
    _restore_at_beginning = virtual.Channel._restore_at_beginning

    @contextmanager
    def conn_or_acquire(self, client: Any = None) -> Iterator[Any]:
        yield client or self._kept

    @cached_property
    def _kept(self) -> Any:
        return self._create_client()  # type: ignore[no-untyped-call]


class Transport(redis.Transport):
    """As Celery's `broker_transport`."""

    Channel = Channel
