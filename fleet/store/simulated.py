"""Redis in a simulation: one line to a real server, of which somebody says what becomes of each command."""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from fleet.store.keys import Keys
from fleet.store.live import Live
from fleet.store.shapes import Wake

LAPSING = ("opening", "leader")
"""Keys with a lifetime by Redis's own clock, that processes wait for."""
ADVANCE = """
redis.call('SET', KEYS[1], ARGV[1])
for i = 2, #KEYS do
  local left = redis.call('PTTL', KEYS[i])
  if left >= 0 then redis.call('PEXPIRE', KEYS[i], math.max(0, left - ARGV[2])) end
end
"""


class Lost(Exception):
    """A command or its answer was lost on the way."""


class Wire(Protocol):
    """Hears of every command before it is sent, and of those that write when they are done. Both may raise Lost."""

    def before(self, what: str) -> None: ...

    def after(self, what: str) -> None: ...


class Saved(NamedTuple):
    """Keys as they were: name, serialised value, milliseconds to live (0: for ever)."""

    keys: tuple[tuple[str, bytes, int], ...]


class Line(redis.UnixDomainSocketConnection):
    """All processes of a simulation share it: only one of them is ever between a command and its answer."""

    wire: Wire

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call]
        self._greeting = self._spared = self._script = False

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        if self._greeting:
            super().send_packed_command(command, check_health)  # type: ignore[no-untyped-call]
            return
        script = b"FCALL" in b"".join(command)[:40]
        self._told(self.wire.before, script)
        self._script, self._greeting = script, True
        try:
            super().send_packed_command(command, check_health)  # type: ignore[no-untyped-call]
        finally:
            self._greeting = False

    def read_response(self, *args: Any, **options: Any) -> Any:
        answer = super().read_response(*args, **options)
        if self._script and not self._greeting:
            self._script = False
            self._told(self.wire.after, True)
        return answer

    def disconnect(self, *args: Any, **options: Any) -> None:
        """A command that was lost on purpose leaves the line as it was."""
        if self._spared:
            self._spared = False
            return
        super().disconnect(*args, **options)  # type: ignore[no-untyped-call]

    def _told(self, tell: Any, script: bool) -> None:
        try:
            tell("redis script" if script else "redis")
        except Lost as lost:
            self._spared = True
            raise redis.ConnectionError(str(lost)) from None
        except BaseException:
            self._spared = True
            raise


class OneLine(redis.ConnectionPool):
    """A pool of one connection, which everybody may have at once."""

    def __init__(self, path: str, wire: Wire) -> None:
        options: dict[str, Any] = {"path": path, "decode_responses": True, "retry": Retry(NoBackoff(), 0)}
        super().__init__(connection_class=Line, **options)
        self._line = Line(**options)  # type: ignore[abstract]
        self._line.wire = wire

    def get_connection(self, *_: Any, **__: Any) -> Any:
        return self._line

    def release(self, connection: Any) -> None:
        pass

    def close(self) -> None:
        self._line._spared = False
        self._line.disconnect()


class SimulatedRedis:
    """A namespace of a server on a Unix socket, whose clock, keys and messages a simulation has in its hand."""

    def __init__(self, path: str, namespace: str, wire: Wire) -> None:
        self._keys = Keys(namespace)
        self._hand = redis.Redis(unix_socket_path=path)
        self._pool = OneLine(path, wire)
        self._ahead = 0
        self.advance(0)

    def live(self) -> Live:
        """The live state, for one process."""
        return Live(redis.Redis(connection_pool=self._pool), self._keys.namespace)

    def advance(self, seconds: int) -> None:
        """Set the clock ahead by so many seconds more."""
        self._ahead += seconds * 1000
        lapsing = [f"{self._keys.namespace}:{name}" for name in LAPSING]
        self._hand.eval(ADVANCE, 1 + len(lapsing), self._keys.clock_offset, *lapsing, self._ahead, seconds * 1000)

    def messages(self, lanes: Iterable[str]) -> list[Wake]:
        """Take the messages that were sent since the last time."""
        found: list[Wake] = []
        for lane in lanes:
            texts: Any = self._hand.rpop(f"{self._keys.namespace}:celery:lane.{lane}", 1000)
            for text in texts or ():
                run, step = json.loads(json.loads(text)["body"])[0]
                found.append(Wake(run, step, lane))
        return found

    def flush(self) -> None:
        """Redis loses everything."""
        self.remove()
        self.advance(0)

    def save(self) -> Saved:
        """What Redis holds now."""
        names = [name.decode() for name in self._hand.scan_iter(f"{self._keys.namespace}:*", count=1000)]
        pipe = self._hand.pipeline()
        for name in names:
            pipe.dump(name)
            pipe.pttl(name)
        found = pipe.execute()
        return Saved(tuple((n, d, max(0, t)) for n, d, t in zip(names, found[::2], found[1::2], strict=True) if d))

    def restore(self, saved: Saved) -> None:
        """Redis comes back as it was."""
        self.remove()
        pipe = self._hand.pipeline()
        for name, value, left in saved.keys:
            pipe.restore(name, left, value)
        pipe.execute()
        self.advance(0)

    def remove(self) -> None:
        """Delete the namespace."""
        if names := list(self._hand.scan_iter(f"{self._keys.namespace}:*", count=1000)):
            self._hand.unlink(*names)

    def close(self) -> None:
        self.remove()
        self._pool.close()
        self._hand.close()
