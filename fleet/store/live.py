"""The live state, as one thing to hand around: what Redis holds for the fleet."""

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from fleet.store.breakers import Breakers
from fleet.store.epoch import EpochKey
from fleet.store.keys import Keys
from fleet.store.lanes import Lanes, WorkerSeen
from fleet.store.pauses import Pauses
from fleet.store.runs import Runs
from fleet.store.scripts import Scripts, guarded
from fleet.store.steps import Steps
from fleet.store.streams import Streams


class Live:
    """Opens one Redis client for the process; threads share it."""

    def __init__(self, client: "redis.Redis", namespace: str) -> None:
        self.client = client
        self.keys = Keys(namespace)
        scripts = Scripts(client, namespace)
        self.steps = Steps(scripts)
        self.runs = Runs(client, scripts, self.keys)
        self.pauses = Pauses(client, scripts, self.keys)
        self.breakers = Breakers(client, scripts, self.keys)
        self.streams = Streams(client, self.keys)
        self.epochs = EpochKey(client, self.keys)
        self.serving = Lanes(client, self.keys)

    @classmethod
    def connect(cls, url: str, namespace: str = "fleet", *, most: int = 1024) -> "Live":
        """Connects at the first call. A call is never repeated by the client: the engine knows what may be."""
        client = redis.Redis.from_url(
            url,
            decode_responses=True,
            max_connections=most,
            socket_timeout=10,
            socket_connect_timeout=5,
            socket_keepalive=True,
            retry=Retry(NoBackoff(), 0),
        )
        return cls(client, namespace)

    def epoch(self) -> int | None:
        """The epoch of the live state, or None when Redis holds none."""
        return self.epochs.current()

    def set_epoch(self, epoch: int) -> None:
        """Open an epoch where none is."""
        self.epochs.open(epoch)

    def lead(self, name: str, seconds: float) -> bool:
        """Whether `name` leads the schedulers for the next `seconds`."""
        key, lifetime = self.keys.leader, round(seconds * 1000)
        if guarded(lambda: self.client.set(key, name, nx=True, px=lifetime)):
            return True
        if guarded(lambda: self.client.get(key)) != name:
            return False
        return bool(guarded(lambda: self.client.pexpire(key, lifetime)))

    def workers(self) -> list[WorkerSeen]:
        """Workers whose heartbeat counts."""
        return self.serving.workers()

    def lanes(self) -> list[str]:
        return sorted(guarded(lambda: self.client.smembers(self.keys.lanes)))

    def close(self) -> None:
        self.client.close()
