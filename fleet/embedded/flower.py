"""Flower beside an embedded fleet: read-only, on 127.0.0.1, behind a password, its history kept in the data folder."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

from fleet.embedded.folder import kept_secret, write_private
from fleet.embedded.server import HOST, free_port

USER = "fleet"
APP = "fleet.app:flower_app"

_CONFIG = """\
address = {address!r}
port = {port}
basic_auth = [{login!r}]
read_only = True
persistent = True
db = {db!r}
state_save_interval = 3000
max_tasks = 20000
tasks_columns = "name,state,args,received,runtime,worker,started,uuid"
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Flower:
    """argv: what to run. address: where people look. login: user and password."""

    argv: tuple[str, ...]
    address: str
    login: str = field(repr=False)


def flower(folder: Path, app: str = APP, port: int = 0) -> Flower:
    """Writes Flower's configuration into `folder` (0600, since it holds the password) and says how to run it.

    app: the Celery app, as module:attribute. port: 0 takes one that is free now.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    port = port or free_port()
    login = f"{USER}:{kept_secret(folder / 'flower.password')}"
    config = folder / "flowerconfig.py"
    write_private(config, _CONFIG.format(address=HOST, port=port, login=login, db=str(folder / "history")))
    return Flower(
        argv=(sys.executable, "-m", "celery", "-A", app, "flower", f"--conf={config}"),
        address=f"http://{HOST}:{port}",
        login=login,
    )
