"""An embedded fleet: Redis, workers, scheduler and Flower as supervised processes on one data folder."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from signal import SIGKILL, Signals, strsignal
from types import TracebackType

from pydantic import SecretStr

from fleet.embedded.attach import REDIS_FOLDER
from fleet.embedded.child import Backoff, ChildSpec, last_line
from fleet.embedded.flower import Flower, flower
from fleet.embedded.folder import DataFolder, FleetNote
from fleet.embedded.ready import Ready, enough_workers, migrate
from fleet.embedded.server import NAME as REDIS
from fleet.embedded.server import RedisServer, refuse_taken
from fleet.embedded.supervisor import Supervisor
from fleet.errors import BadInput, FleetFault, StoreUnreachable
from fleet.settings import Settings, child_environment, mask

COMMAND = (sys.executable, "-m", "fleet")
DEATHS_BEFORE_READY = 3


class EmbeddedFleet:
    """A context manager: entering starts everything, leaving drains and ends it.

    settings: once entered, with the URLs of the running Redis and of the record. migrate: brings the record of a URL
    to the newest schema. ready: says whether so many workers serve. command: what `worker --name wN` and `scheduler`
    are appended to. talk: gets sentences for people. backoff: before what died is
    started again.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        migrate: Callable[[str], None] = migrate,
        ready: Ready = enough_workers,
        command: Sequence[str] = COMMAND,
        talk: Callable[[str], None] = lambda sentence: None,
        backoff: Backoff | None = None,
    ) -> None:
        self.settings = settings
        self.flower: Flower | None = None
        self._migrate = migrate
        self._ready = ready
        self._command = tuple(command)
        self._talk = talk
        self._supervisor = Supervisor(backoff, on_change=self._note)
        self._folder = DataFolder(settings.data)
        self._server: RedisServer | None = None
        self._noting = threading.Lock()
        self._told: dict[str, int] = {}
        self._is_up = False

    def __enter__(self) -> "EmbeddedFleet":
        """Raises FleetRunning, PortTaken, StoreUnreachable, BadInput. What was started until then is ended."""
        if self.settings.flower:
            refuse_taken(self.settings.flower_port, "FLEET_FLOWER_PORT")
        with ExitStack() as undo, _told_as_input():
            undo.enter_context(self._folder)
            undo.callback(self._stop)
            self._start_redis()
            self._migrate(self.settings.record_url)
            self._start_processes()
            self._note()
            undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._stop()
        finally:
            self._folder.__exit__(kind, error, trace)

    def wait_ready(self, timeout: float = 60.0) -> None:
        """Returns when every worker serves. Raises FleetFault, with a worker's last words, where one can't."""
        until = time.monotonic() + timeout
        while not self._is_ready():
            for name, restarts in self._supervisor.counts().items():
                if restarts >= DEATHS_BEFORE_READY and name.startswith("w"):
                    raise FleetFault(f"worker {name} does not start: {self._last_words(name)}")
            if time.monotonic() > until:
                raise FleetFault(f"no worker was ready within {timeout:g} s: {self._last_words('w1')}")
            time.sleep(0.05)
        self._is_up = True

    def addresses(self) -> dict[str, str]:
        """Where its parts are, without passwords."""
        found = {
            "redis": self._server.address if self._server is not None else "",
            "record": mask(self.settings.record_url),
        }
        return found | ({"flower": self.flower.address} if self.flower else {})

    def restarts(self, name: str) -> int:
        """How often a process (redis, w1, w2, ..., scheduler, flower) was started again."""
        return self._keeper(name).restarts(name)

    def counts(self) -> dict[str, int]:
        """Restarts by process."""
        return self._over_all(Supervisor.counts)

    def pids(self) -> dict[str, int]:
        """Process ids by process."""
        return self._over_all(Supervisor.pids)

    def kill(self, name: str, number: Signals = SIGKILL) -> None:
        """Signals a process as an accident would."""
        self._keeper(name).kill(name, number)

    def hurry(self) -> None:
        """Ends without grace. Safe in a signal handler."""
        for supervisor in self._supervisors():
            supervisor.hurry()

    def _start_redis(self) -> None:
        given = self.settings.redis_url
        self._server = RedisServer.start(
            self._folder.path / REDIS_FOLDER, given.get_secret_value() if given is not None else None
        )
        if self._server.supervisor is not None:
            self._server.supervisor.on_change = self._note
        if self._server.warning:
            self._talk(self._server.warning)
        self.settings = self.settings.model_copy(
            update={
                "data": self._folder.path,
                "redis_url": SecretStr(self._server.url),
                "database_url": SecretStr(self.settings.record_url),
            }
        )

    def _start_processes(self) -> None:
        for number in range(1, self.settings.workers + 1):
            self._keep(f"w{number}", (*self._command, "worker", "--name", f"w{number}"))
        self._keep("scheduler", (*self._command, "scheduler"))
        if self.settings.flower:
            self.flower = flower(self._folder.path / "flower", port=self.settings.flower_port)
            self._keep("flower", self.flower.argv)

    def _keep(self, name: str, argv: tuple[str, ...]) -> None:
        self._supervisor.keep(
            ChildSpec(
                name=name, argv=argv, env=child_environment(self.settings), cwd=Path.cwd(), log=self._folder.log(name)
            )
        )

    def _stop(self) -> None:
        """Redis goes last, so that workers can hand back what they hold."""
        self._supervisor.stop(self.settings.grace)
        if self._server is not None:
            self._server.stop()

    def _note(self) -> None:
        """Tells whoever looks at the folder, and people, how the processes are."""
        with self._noting:
            counts = self.counts()
            for name, restarts in counts.items():
                if self._is_up and restarts > self._told.get(name, 0):  # before, wait_ready tells why it gave up
                    self._talk(f"{name} died and was started again (restart {restarts}): {self._cause(name)}")
            self._told = counts
            note = FleetNote(
                pid=os.getpid(),
                namespace=self.settings.namespace,
                addresses=self.addresses(),
                pids=self.pids(),
                restarts=counts,
                owned=self._server is not None and self._server.owned,
            )
            try:
                self._folder.note(note)
            except OSError as refused:  # a full disk must not end the thread that keeps the processes
                self._talk(f"{self._folder.path / 'fleet.json'} can't be written: {refused.strerror}")

    def _is_ready(self) -> bool:
        try:
            return self._ready(self.settings, self.settings.workers)
        except StoreUnreachable:  # Redis is being started again
            return False

    def _cause(self, name: str) -> str:
        """Why a process died: the signal that killed it, which it could not tell of, else its last words."""
        code = self._over_all(Supervisor.codes)[name]
        return f"ended by signal {-code} ({strsignal(-code)})" if code < 0 else self._last_words(name)

    def _last_words(self, name: str) -> str:
        folder = self._folder.path / REDIS_FOLDER / "redis.log"
        log = folder if name == REDIS else self._folder.log(name)
        return f"{last_line(log) or 'it says nothing'} (see {log})"

    def _supervisors(self) -> tuple[Supervisor, ...]:
        redis = self._server.supervisor if self._server is not None else None
        return (self._supervisor,) if redis is None else (redis, self._supervisor)

    def _over_all(self, ask: Callable[[Supervisor], dict[str, int]]) -> dict[str, int]:
        return {name: value for supervisor in self._supervisors() for name, value in ask(supervisor).items()}

    def _keeper(self, name: str) -> Supervisor:
        return next((kept for kept in self._supervisors() if name in kept.counts()), self._supervisor)


@contextmanager
def _told_as_input() -> Iterator[None]:
    """A file that can't be written while a fleet starts is a sentence."""
    try:
        yield
    except OSError as refused:
        raise BadInput(f"{refused.filename or 'the data folder'} can't be used: {refused.strerror}") from None
