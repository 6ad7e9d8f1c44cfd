"""The proxy that faults of the network are played with."""

import socket
from collections.abc import Iterator

import pytest
import redis

from tests.proxies import Proxy
from tests.servers import RedisProcess


@pytest.fixture
def proxy(redis_server: RedisProcess) -> Iterator[Proxy]:
    with Proxy(("127.0.0.1", redis_server.port)) as proxy:
        yield proxy


@pytest.fixture
def client(proxy: Proxy) -> Iterator[redis.Redis]:
    client = redis.Redis(port=proxy.port, socket_timeout=0.3, retry=None)
    yield client
    client.close()


def test_a_link_passes_and_counts_its_connections(proxy: Proxy, client: redis.Redis) -> None:
    assert client.ping()
    assert (proxy.accepted, proxy.open) == (1, 1)


def test_a_link_that_is_cut_resets_until_it_is_mended(proxy: Proxy, client: redis.Redis) -> None:
    client.ping()
    proxy.cut()
    with pytest.raises(redis.ConnectionError):
        client.ping()
    proxy.mend()
    assert client.ping()


def test_what_is_held_arrives_later(proxy: Proxy, client: redis.Redis) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port)) as raw:
        proxy.hold()
        raw.sendall(b"PING\r\n")
        with pytest.raises(redis.TimeoutError):
            client.ping()
        proxy.mend()
        assert raw.recv(100) == b"+PONG\r\n"


def test_a_half_open_link_is_silent_and_then_reset(proxy: Proxy) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port)) as raw:
        raw.sendall(b"PING\r\n")
        assert raw.recv(100) == b"+PONG\r\n"
        proxy.lose()
        raw.sendall(b"PING\r\n")
        raw.settimeout(0.2)
        with pytest.raises(TimeoutError):
            raw.recv(100)
        proxy.mend()
        raw.settimeout(5)
        raw.sendall(b"PING\r\n")
        with pytest.raises(ConnectionResetError):
            raw.recv(100)


def test_a_link_leads_elsewhere(proxy: Proxy, client: redis.Redis) -> None:
    client.ping()
    with socket.create_server(("127.0.0.1", 0)) as other:
        proxy.point(other.getsockname()[:2])
        with socket.create_connection(("127.0.0.1", proxy.port)) as raw:
            raw.sendall(b"hello")
            met, _ = other.accept()
            with met:
                assert met.recv(100) == b"hello"
