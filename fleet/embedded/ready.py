"""What an embedded fleet asks of the stores."""

from collections.abc import Callable

from fleet.settings import Settings

Ready = Callable[[Settings, int], bool]
"""Whether so many workers serve. May raise StoreUnreachable while Redis starts."""


def migrate(url: str) -> None:
    """Brings the record to the newest schema, and makes it where there is none."""
    from fleet.store.sql.database import Database

    Database.open(url).close()


def serving(settings: Settings) -> tuple[str, ...]:
    """The names of the workers whose heartbeat counts. Raises StoreUnreachable. settings: with a redis_url."""
    from fleet.store.live import Live

    if settings.redis_url is None:
        return ()
    live = Live.connect(settings.redis_url.get_secret_value(), settings.namespace)
    try:
        return tuple(worker.name for worker in live.workers())
    finally:
        live.close()


def enough_workers(settings: Settings, number: int) -> bool:
    """Whether so many workers serve."""
    return len(serving(settings)) >= number
