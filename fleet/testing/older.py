"""Redis that comes back older than it was: what it held is saved now and then, and put back when a fault says so."""

from fleet.store.simulated import Saved, SimulatedRedis
from fleet.store.sql.record import Record
from fleet.testing.world import World

SAVES = 0.05
"""Chance of a moment that what Redis holds is saved, while nothing is."""


class Older:
    """Puts back only what is older than the last beat on record: anything newer could not be noticed."""

    def __init__(self, redis: SimulatedRedis, record: Record, world: World) -> None:
        self._redis = redis
        self._record = record
        self._world = world
        self._saved: Saved | None = None
        self._at = (0, 0)

    def moment(self) -> None:
        if not self._world.faults.restore:
            return
        beaten = self._record.epochs.last_beat()
        if self._saved is not None and beaten and (beaten.epoch, beaten.n) > self._at:
            if self._world.fires("restore"):
                self._redis.restore(self._saved)
                self._saved = None
        elif self._saved is None and self._world.chance.random() < SAVES:
            self._saved, self._at = self._redis.save(), (beaten.epoch, beaten.n + 1) if beaten else (0, 0)
