"""What is shipped to run a fleet in containers: valid files, real settings, no secret, no privilege."""

import re
import runpy
import shutil
import subprocess
import sys
import time
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml

from fleet.embedded.server import free_port
from fleet.settings import Settings

ROOT = Path(__file__).resolve().parents[3]
COMPOSE = ROOT / "docker-compose.yml"
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
BIN = Path(sys.executable).parent


def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE.read_text())["services"]
    return found


def test_the_compose_file_meets_the_compose_specification() -> None:
    command = [str(BIN / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(COMPOSE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dockerfile_is_lint_free() -> None:
    done = subprocess.run([str(BIN / "hadolint"), str(DOCKERFILE)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_variable_that_compose_takes_is_in_the_example_without_a_value() -> None:
    """R38"""
    example = dict(
        line.split("=", 1) for line in (ROOT / ".env.example").read_text().splitlines() if line and line[0] != "#"
    )
    taken = set(re.findall(r"(?<!\$)\$\{([A-Z_]+)", COMPOSE.read_text()))
    assert taken == set(example)
    assert not [name for name, value in example.items() if value and re.search("PASSWORD|KEY|AUTH", name)]


def test_every_fleet_variable_in_containers_is_a_setting() -> None:
    known = {f"FLEET_{name.upper()}" for name in Settings.model_fields}
    texts = [COMPOSE.read_text(), DOCKERFILE.read_text(), (ROOT / ".env.example").read_text()]
    assert set(re.findall(r"\bFLEET_[A-Z_]+", " ".join(texts))) <= known


@pytest.mark.parametrize("name", sorted(services()))
def test_no_service_has_privileges_or_a_port_for_the_world(name: str) -> None:
    service = services()[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["user"] not in ("", "root", "0")
    assert service["logging"]["options"]["max-size"]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    assert "stop_grace_period" in service


@pytest.mark.parametrize("name", ["migrate", "scheduler", "worker", "flower"])
def test_fleet_containers_write_nowhere_but_to_their_volume(name: str) -> None:
    service = services()[name]
    assert service["read_only"] is True
    assert service["user"] == "10001:10001"
    assert service["stop_signal"] == "SIGTERM"


def test_containers_wait_for_what_they_need() -> None:
    for name in ("scheduler", "worker"):
        conditions = {need: entry["condition"] for need, entry in services()[name]["depends_on"].items()}
        assert conditions == {
            "redis": "service_healthy",
            "postgres": "service_healthy",
            "migrate": "service_completed_successfully",
        }
    assert all("healthcheck" in service for name, service in services().items() if name != "worker")
    assert "HEALTHCHECK" in DOCKERFILE.read_text()


def test_docker_waits_longer_than_a_worker_drains() -> None:
    """R32"""
    worker = services()["worker"]
    assert int(worker["stop_grace_period"].removesuffix("s")) > float(worker["environment"]["FLEET_GRACE"])


def test_the_commands_of_the_containers_exist() -> None:
    from typer.main import get_command

    from fleet.cli.main import app

    commands = set(get_command(app).commands)  # type: ignore[attr-defined]
    used = {service["command"][0] for name, service in services().items() if name in ("migrate", "scheduler", "worker")}
    assert used <= commands


def test_flower_shows_nobody_how_to_change_anything_and_needs_a_login() -> None:
    """R33"""
    flower = services()["flower"]
    assert ":?" in flower["environment"]["FLOWER_BASIC_AUTH"]
    assert "FLEET_DATABASE_URL" not in flower["environment"]
    import flower.options
    from tornado.options import options

    config = runpy.run_path(str(ROOT / "deploy" / "flowerconfig.py"))
    chosen = {name: value for name, value in config.items() if not name.startswith("__")}
    assert set(chosen) <= set(options)
    assert chosen["read_only"] is True
    assert chosen["persistent"] is True


def test_the_image_holds_pinned_packages_only_and_runs_as_nobody_special() -> None:
    text = DOCKERFILE.read_text()
    assert "--require-hashes" in text
    assert "USER 10001:10001" in text
    assert "curl" not in text
    lock = runpy.run_path(str(ROOT / "deploy" / "lock.py"))
    shipped = (ROOT / "deploy" / "requirements.txt").read_text()
    pins = lock["blocks"]((ROOT / "requirements" / "dev.txt").read_text())
    assert all(pins[name] == block for name, block in lock["blocks"](shipped).items()), "run python deploy/lock.py"
    assert {"celery", "redis", "flower", "sqlmodel", "kombu", "psycopg-binary"} <= set(lock["blocks"](shipped))
    assert not {"pytest", "ruff", "mypy", "hatchling"} & set(lock["blocks"](shipped))


def test_the_packages_of_the_image_are_all_that_its_processes_import() -> None:
    """A package that only tests and builds bring along is not there."""
    lock = runpy.run_path(str(ROOT / "deploy" / "lock.py"))
    shipped = set(lock["blocks"]((ROOT / "deploy" / "requirements.txt").read_text())) | {"celery-agent-fleet"}
    command = [sys.executable, "-c", IMPORTING, *sorted(shipped)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


IMPORTING = """
import sys
from importlib import import_module
from importlib.metadata import packages_distributions

OWNERS = {top: {name.lower().replace("_", "-").replace(".", "-") for name in names}
          for top, names in packages_distributions().items()}
SHIPPED = set(sys.argv[1:])

class Absent:
    @staticmethod
    def find_spec(name, path=None, target=None):
        owners = OWNERS.get(name.partition(".")[0])
        if owners and not owners & SHIPPED:
            raise ModuleNotFoundError(f"{name} is not in the image", name=name)

sys.meta_path.insert(0, Absent)
for name in ("fleet._apps.tasks.worker", "fleet._apps.scheduler.main", "fleet.cli.main", "fleet.client",
             "fleet.embedded.fleet", "kombu.transport.redis", "celery.concurrency.thread", "flower.command",
             "sqlalchemy.dialects.postgresql.psycopg", "psycopg", "alembic.command", "pydantic_ai.models.openai"):
    import_module(name)
"""


def test_the_image_is_named_for_the_version_of_the_project() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert {services()[name]["image"] for name in ("migrate", "scheduler", "worker", "flower")} == {
        f"celery-agent-fleet:{version}"
    }


def test_nobody_takes_the_server_that_sets_postgres_up_for_postgres() -> None:
    """It listens on no address but its socket."""
    assert "--host=127.0.0.1" in services()["postgres"]["healthcheck"]["test"]


def test_a_real_server_starts_with_the_shipped_configuration(tmp_path: Path) -> None:
    program = shutil.which("redis-server")
    if program is None:
        from fleet.embedded.server import wheel_binary

        program = str(wheel_binary())
    port = free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--requirepass", "hush"]
    log = tmp_path / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [program, str(ROOT / "deploy" / "redis.conf"), *options], stdout=output, stderr=output, cwd=tmp_path
        ) as server,
        closing(redis.Redis(port=port, password="hush", decode_responses=True)) as client,
    ):
        try:
            until = time.monotonic() + 20
            while True:
                try:
                    client.ping()
                    break
                except redis.exceptions.ConnectionError:
                    assert server.poll() is None, log.read_text()
                    assert time.monotonic() < until
                    time.sleep(0.02)
            config = client.config_get()
            assert (config["appendonly"], config["maxmemory-policy"]) == ("yes", "noeviction")
            assert config["save"] == ""
        finally:
            server.terminate()
