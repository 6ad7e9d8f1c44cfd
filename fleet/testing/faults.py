"""What may go wrong in a simulation, and how often."""

from collections.abc import Mapping

from pydantic import Field

from fleet.core.value import Value

CHANCE = Field(default=0.0, ge=0.0, le=1.0)


class Crashed(BaseException):
    """The process of an actor has died: nothing of it goes on. No handler of errors takes it for one."""


class Faults(Value):
    """Chances. Of each call of a store: kill (its process dies before or behind it), drop (it never arrives), lose (it
    is carried out, and its answer is lost), delay (it waits until leases have run out).

    Of each message: lost_message, twice. Of each moment: freeze (a worker stands still beyond its lease), flush (Redis
    loses everything), restore (Redis comes back older than it was), away (the database is not there for a while).
    """

    kill: float = CHANCE
    drop: float = CHANCE
    lose: float = CHANCE
    delay: float = CHANCE
    lost_message: float = CHANCE
    twice: float = CHANCE
    freeze: float = CHANCE
    flush: float = CHANCE
    restore: float = CHANCE
    away: float = CHANCE


HARD = Faults(
    kill=0.01,
    drop=0.01,
    lose=0.01,
    delay=0.01,
    lost_message=0.2,
    twice=0.1,
    freeze=0.01,
    flush=0.004,
    restore=0.004,
    away=0.004,
)
"""Every fault, often enough that a short simulation meets several."""
NONE = Faults()
Fired = Mapping[str, int]
"""How often each fault happened, by its name."""
