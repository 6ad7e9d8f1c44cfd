"""A worker's heartbeat: renews its leases, says how many slots it has, hears which attempts are no more wanted."""

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence

from fleet.engine.deps import Deps
from fleet.engine.holding import Holding
from fleet.engine.unheard import Unheard
from fleet.errors import StoreUnreachable
from fleet.settings import child_environment
from fleet.store.steps import Held, Place

from .apart import Apart
from .beating import About
from .board import Board

log = logging.getLogger("fleet.heartbeat")
PAGE = 200
TICK = 0.25
"""Seconds between signs on the board that this interpreter runs."""


class Heartbeat:
    """Beats at once and until it is stopped. A worker that starts, or finds Redis again, wakes itself.

    With a board, a process of its own beats, which no step can starve (tasks.beating). A thread starts it, hears what
    it says, and beats itself while it is silent, and for what the board has no room for. Without a board the thread
    beats.
    """

    def __init__(
        self,
        deps: Deps,
        holding: Holding,
        place: Place,
        slots: int,
        on_stuck: Callable[[], None] = lambda: None,
        *,
        board: Board | None = None,
    ) -> None:
        """on_stuck: called at each beat that finds a quarter of the slots stuck in tools that do not stop."""
        self._deps = deps
        self._holding = holding
        self._place = place
        self._slots = slots
        self._on_stuck = on_stuck
        self._board = board
        self._apart = Apart(_about(deps, place, slots, board), _environment(deps)) if board is not None else None
        self._unheard = Unheard(deps, holding, place)
        self._away = True
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._beat_on, name="fleet-heartbeat", daemon=True)]
        if board is not None:
            self._threads.append(threading.Thread(target=self._tick_on, name="fleet-ticks", daemon=True))

    @property
    def deaths(self) -> int:
        """How often the process that beats has died, and was started again."""
        return self._apart.deaths if self._apart is not None else 0

    @property
    def pid(self) -> int | None:
        """Of the process that beats, while it lives."""
        return self._apart.pid if self._apart is not None else None

    @property
    def beating(self) -> bool:
        """Whether that process has been heard of late."""
        return self._apart is not None and self._apart.beating

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Nothing beats any more when the worker says goodbye, else its slots would be counted again."""
        self._stop.set()
        if self._apart is not None:
            self._apart.hush()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(self._deps.settings.heartbeat * 2)
        if self._apart is not None:
            self._apart.end()
        try:
            self._deps.live.steps.leave(self._place.worker)
        except StoreUnreachable as away:
            log.warning("could not say goodbye: %s", away)

    def beat(self) -> None:
        """One beat. A stopping worker has no slots but those it holds: their leases are counted against them."""
        held = self._holding.held()
        stopping, stuck = self._holding.stopping.is_set(), self._holding.stuck()
        self._drain_if_stuck(stuck)
        self._renew(len(held) if stopping else max(0, self._slots - stuck), held)

    def _drain_if_stuck(self, stuck: int) -> None:
        if stuck * 4 >= self._slots and not self._holding.stopping.is_set():
            log.error("%d of %d slots are stuck: the worker drains", stuck, self._slots)
            self._on_stuck()

    def _renew(self, slots: int | None, held: Sequence[Held]) -> None:
        for start in range(0, max(1, len(held)), PAGE):
            offered = slots if start == 0 else None
            refused = self._deps.live.steps.renew(
                self._place, offered, self._deps.settings.lease, held[start : start + PAGE]
            )
            for key, why in refused.items():
                self._cancel(key, why)

    def _cancel(self, key: tuple[str, str, str], why: str) -> None:
        if self._holding.cancel(key, why):
            log.info("attempt %s of step %s is no more wanted: %s", key[2], key[1], why, extra={"run": key[0]})

    def _beat_on(self) -> None:
        """Nothing ends it but stop: a worker that lives without a heartbeat loses every step it takes."""
        due = 0.0
        while not self._stop.is_set():
            if self._apart is not None and self._fell_silent(due - time.monotonic()):
                due = 0.0
            if time.monotonic() >= due:
                due = time.monotonic() + self._deps.settings.heartbeat
                self._guarded(self._beat_where_nobody_does)
            if self._apart is None:
                self._stop.wait(due - time.monotonic())

    def _beat_where_nobody_does(self) -> None:
        if self._apart is None or not self._apart.beating:
            self.beat()
            self._found()
        else:
            self._drain_if_stuck(self._holding.stuck(self._deps.settings.heartbeat))
            if unnoted := self._holding.unnoted():
                self._renew(None, unnoted)
        self._unheard.look()

    def _fell_silent(self, timeout: float) -> bool:
        """Heed what the process says: whether it died or fell silent, so that a beat is due."""
        apart = self._apart
        assert apart is not None  # noqa: S101 - for the type checker
        beating = apart.beating
        self._guarded(lambda: self._heed(apart.hear(timeout)))
        return beating and not apart.beating

    def _heed(self, said: list[list[str]]) -> None:
        for words in said:
            match words:
                case ["refused", run, step, fence, why]:
                    self._cancel((run, step, fence), why)
                case ["away", why]:
                    log.warning("no heartbeat: %s", why)
                    self._away = True
                case ["back"]:
                    self._found()

    def _found(self) -> None:
        """Redis is there, and messages that it has lost are sent again."""
        if self._away:
            self._deps.live.steps.untold()
        self._away = False

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except StoreUnreachable as gone:
            log.warning("no heartbeat: %s", gone)
            self._away = True
        except Exception:
            log.exception("no heartbeat")
            self._away = True

    def _tick_on(self) -> None:
        """A thread that waits for nothing but the interpreter: when it does not tick, a step holds the lock."""
        assert self._board is not None  # noqa: S101 - for the type checker
        while not self._stop.wait(TICK):
            self._board.tick(stopping=self._holding.stopping.is_set())


def _about(deps: Deps, place: Place, slots: int, board: Board) -> About:
    settings = deps.settings
    assert settings.redis_url is not None  # noqa: S101 - open_deps has refused that
    return About(
        url=settings.redis_url.get_secret_value(),
        namespace=settings.namespace,
        worker=place.worker,
        lanes=place.lanes,
        slots=slots,
        lease=place.lease,
        heartbeat=settings.heartbeat,
        patience=max(settings.grace, settings.lease),
        fd=board.fd,
        notes=board.size,
        parent=os.getpid(),
    )


def _environment(deps: Deps) -> dict[str, str]:
    """This process's, without the settings: the one secret that is needed goes by a pipe."""
    return {name: value for name, value in child_environment(deps.settings).items() if not name.startswith("FLEET_")}
