"""The clock that the scripts go by: Redis's own, and in a simulation what it is ahead."""

import redis

from fleet.store.keys import Keys
from fleet.store.scripts import guarded


def now(client: "redis.Redis", keys: Keys) -> int:
    """Milliseconds since 1970."""
    pipe = client.pipeline(transaction=False)
    pipe.time()
    pipe.get(keys.clock_offset)
    (seconds, micro), ahead = guarded(pipe.execute)
    return int(seconds) * 1000 + int(micro) // 1000 + int(float(ahead or 0))
