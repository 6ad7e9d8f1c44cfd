"""The Celery app: carries wake-ups, and nothing else. A user's own app in the same process is left alone."""

import logging
import ssl
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from celery import Celery
from kombu.entity import Queue

from fleet.settings import Settings, load_settings, mask

log = logging.getLogger("fleet.app")
CONF = {
    "task_serializer": "json",
    "accept_content": ["json"],
    "task_ignore_result": True,
    "task_acks_late": False,
    "task_create_missing_queues": False,
    "task_send_sent_event": False,
    "worker_prefetch_multiplier": 1,
    "worker_disable_prefetch": True,
    "worker_send_task_events": True,
    "worker_hijack_root_logger": False,
    "worker_redirect_stdouts": False,
    "broker_connection_retry_on_startup": True,
    "broker_connection_max_retries": None,
}
"""Early ack and no prefetch: with a late ack open, Celery 5.7.0 exits when Redis goes away; and a prefetched message
waits behind a busy slot. No canvas, no retry, no eta, no result backend: the live state does what they would."""

TRANSPORT = {
    "socket_timeout": 30,
    "socket_connect_timeout": 5,
    "socket_keepalive": True,
    "health_check_interval": 5,
    "max_connections": 200,
}


def queue_of(lane: str) -> str:
    return f"lane.{lane}"


def make_app(url: str, namespace: str = "fleet", lanes: Iterable[str] = ("main",)) -> Celery:
    """The app of one fleet. url: the Redis that carries messages. lanes: those whose queues are declared."""
    app = Celery("fleet", broker=url, set_as_current=False)
    app.conf.update(CONF)
    app.conf.broker_transport = "fleet.broker:Transport"
    if url.startswith("rediss://"):  # kombu sees by its own transport's name that TLS is meant, and checks nobody then
        app.conf.broker_use_ssl = {"ssl_cert_reqs": ssl.CERT_REQUIRED}
    app.conf.broker_transport_options = {**TRANSPORT, "global_keyprefix": f"{namespace}:celery:"}
    queues = [Queue(queue_of(lane), routing_key=queue_of(lane)) for lane in lanes]  # type: ignore[no-untyped-call]
    app.conf.task_queues = queues
    app.conf.task_default_queue = queues[0].name
    return app


@cache
def app_of(settings: Settings) -> Celery:
    """The app of these settings, one a process."""
    url = settings.redis_url.get_secret_value() if settings.redis_url else "redis://127.0.0.1:6379/0"
    return make_app(url, settings.namespace, settings.lanes.split(","))


def __getattr__(name: str) -> Any:
    """`fleet.app:flower_app`: the app of the settings at hand, for Celery's own command line."""
    if name == "flower_app":
        app = app_of(load_settings())
        app.conf.broker_transport = None  # it looks into Redis itself, for brokers whose name it knows
        return app
    raise AttributeError(name)


def tell_monitors(app: Celery, events: Sequence[Mapping[str, Any]]) -> None:
    """Send task events in one message, each with the `hostname` of the worker it is of. Never fails: nobody keeps them.

    They carry no logical clock: who receives them puts them after all that he has heard.
    """
    try:
        with app.events.default_dispatcher() as dispatcher:
            dispatcher._publish([dict(event) for event in events], dispatcher.producer, "task.multi")
    except Exception as lost:
        log.debug("task events were lost: %s", mask(str(lost)))
