"""Finding the fleet that a command is meant for: the one of FLEET_REDIS_URL, else the one on the data folder."""

from pydantic import SecretStr

from fleet.embedded.folder import FleetNote, kept_secret, running
from fleet.embedded.server import SECRET_FILE
from fleet.errors import StoreUnreachable
from fleet.settings import Settings, mask

REDIS_FOLDER = "redis"


def reachable(settings: Settings) -> Settings:
    """The settings with which to reach a fleet. Raises StoreUnreachable, with the way out, where there is none."""
    if settings.redis_url is not None:
        return settings
    attached = attach(settings)
    if attached is None:
        raise StoreUnreachable(
            f"no fleet runs on {settings.data.absolute()}: start one with `fleet up`, or set FLEET_REDIS_URL"
        )
    return attached


def attach(settings: Settings) -> Settings | None:
    """The settings of the fleet that runs on the data folder, or None where none does.

    Raises StoreUnreachable for a fleet whose Redis or record is named by a variable that this process lacks.
    """
    note = running(settings.data.absolute())
    if note is None:
        return None
    _same_stores(note, settings)
    password = kept_secret(settings.data.absolute() / REDIS_FOLDER / SECRET_FILE)
    url = SecretStr(f"redis://:{password}@{note.addresses['redis']}/0")
    return settings.model_copy(update={"redis_url": url, "namespace": note.namespace})


def _same_stores(note: FleetNote, settings: Settings) -> None:
    who = f"the fleet on {settings.data.absolute()}"
    if not note.owned:
        raise StoreUnreachable(f"{who} uses {note.addresses['redis']}: set FLEET_REDIS_URL to it")
    if note.addresses["record"] != mask(settings.record_url):
        raise StoreUnreachable(f"{who} keeps its record in {note.addresses['record']}: set FLEET_DATABASE_URL to it")
