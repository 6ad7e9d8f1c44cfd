"""A server that does not answer is told of soon, and in one sentence, by whoever starts."""

import socket
import time
from collections.abc import Iterator

import pytest

from fleet.errors import StoreUnreachable
from fleet.store.sql.database import Database


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that takes connections and says nothing."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(16)
        yield server.getsockname()[1]


@pytest.mark.parametrize("hosts", [1, 3])
def test_a_server_that_says_nothing_is_told_of_within_three_seconds(silent: int, hosts: int) -> None:
    """R9: however many addresses its name stands for."""
    began = time.monotonic()
    names, ports = ",".join(["127.0.0.1"] * hosts), ",".join([str(silent)] * hosts)
    with pytest.raises(StoreUnreachable) as told:
        Database.open(f"postgresql://u:hush@/d?host={names}&port={ports}")
    assert time.monotonic() - began < 3.0
    said = str(told.value)
    assert said.endswith("does not answer (no answer within 1.5 s): start the database or correct FLEET_DATABASE_URL.")
    assert "hush" not in said


def test_the_url_can_ask_for_more_patience(silent: int) -> None:
    url = f"postgresql://u@127.0.0.1:{silent}/d?connect_timeout=3"
    with pytest.raises(StoreUnreachable, match=r"no answer within 3 s|timeout expired"):
        Database.open(url)
