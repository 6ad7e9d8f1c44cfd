"""A fleet's parts, on a namespace and a record of their own."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fleet.engine import recover
from fleet.engine.deps import Deps, open_deps
from tests.engine.fleetlet import HERE
from tests.fleets import settings_for
from tests.servers import RedisProcess


@pytest.fixture
def deps(redis_server: RedisProcess, tmp_path: Path) -> Iterator[Deps]:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "token").write_text("s3cr3t-value")
    settings = settings_for(tmp_path, redis_server.url, tools="", builtins=False, secrets=secrets, retention=60.0)
    with closing(open_deps(settings)) as deps:
        recover.ensure_epoch(deps)
        deps.live.steps.renew(HERE, 4, 60, [])
        yield deps
