"""Celery's worker program without what it prints and how it takes signals: the fleet does both itself."""

import signal
from collections.abc import Callable
from typing import Any

from celery import Celery, signals
from celery.apps.worker import Worker, install_cry_handler
from celery.platforms import EX_OK
from celery.worker import state


class Program(Worker):  # type: ignore[misc]
    """A worker that is started by the fleet. SIGUSR1 still shows what each thread does."""

    def install_platform_tweaks(self, _worker: Any) -> None:
        if self.app.IS_macOS:
            self.macOS_proxy_detection_workaround()
        install_cry_handler()


def program(app: Celery, **options: Any) -> Any:
    """The worker of an app, with Celery's options. It logs as the process does."""
    signals.setup_logging.connect(_leave_logging_alone, weak=False)
    return app.subclass_with_self(Program)(app=app, quiet=True, **options)


def on_signals(heard: Callable[[int], None]) -> None:
    """Calls `heard` for each signal that asks a worker to stop. One that is ignored, as by nohup, stays so."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: heard(number))


def take_no_more() -> None:
    """Makes the consumer's loop end, at its next turn. Safe in any thread and in a signal handler."""
    state.should_stop = EX_OK


def _leave_logging_alone(**_: Any) -> None:
    """Celery sets logging up where nobody hears this signal."""
