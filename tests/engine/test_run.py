"""`fleet run` on a Redis that nobody serves yet: it brings its own workers."""

from pathlib import Path

from tests.engine.test_up import PLAN, Terminal
from tests.servers import RedisProcess


def test_run_brings_workers_to_a_redis_that_has_none(redis_server: RedisProcess, tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "fleet.toml").write_text(f'redis_url = "{redis_server.url}"\nnamespace = "alone"\nworkers = 1\n')
    code, out, err = Terminal(tmp_path).run("run", "plan.yaml", "--set", "n=4")
    assert (code, out) == (0, "10\n"), err
    assert "starting a fleet" in err
