"""fetch: which addresses it reaches, what it makes of answers, and how polite it is."""

import asyncio
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from fleet.core.outcome import Failure, FailureClass
from fleet.tools.addresses import is_public, literal
from fleet.tools.builtin.fetch import fetch, fetch_tool
from fleet.tools.context import ToolContext
from fleet.tools.tool import ToolFailed
from fleet.tools.web import Fetcher

PUBLIC = "93.184.215.14"
Answer = tuple[int, Mapping[str, str], bytes]


def run(fetcher: Fetcher, url: str) -> Any:
    tool = fetch_tool(fetcher)
    return asyncio.run(tool.call(tool.prepare({"url": url}), ToolContext()))


def failed(fetcher: Fetcher, url: str) -> Failure:
    with pytest.raises(ToolFailed) as caught:
        run(fetcher, url)
    return caught.value.failure


class Net:
    """Names and answers without a network: records who was asked for what, and to which address it went."""

    def __init__(self, names: Mapping[str, list[str]], answer: Callable[[httpx.Request], httpx.Response]) -> None:
        self.names = {name: list(found) for name, found in names.items()}
        self.answer = answer
        self.resolved: list[str] = []
        self.requests: list[httpx.Request] = []

    async def resolve(self, host: str, _port: int) -> list[str]:
        self.resolved.append(host)
        if host not in self.names:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return self.names[host]

    def _handle(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if request.url.path == "/robots.txt":
            return httpx.Response(404)
        return self.answer(request)

    def fetcher(self) -> Fetcher:
        return Fetcher(resolve=self.resolve, transport=lambda: httpx.MockTransport(self._handle))


def hello(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, headers={"content-type": "text/plain"}, stream=httpx.ByteStream(b"hello"))


BAD_URLS = [
    ("http://127.0.0.1/", "refused_address"),
    ("http://127.1/", "refused_address"),
    ("http://2130706433/", "refused_address"),
    ("http://0x7f000001/", "refused_address"),
    ("http://0x7f.0.0.1/", "refused_address"),
    ("http://0177.0.0.1/", "bad_url"),
    ("http://017700000001/", "refused_address"),
    ("http://127.0.0.1./", "refused_address"),
    ("http://0.0.0.0/", "refused_address"),
    ("http://0/", "refused_address"),
    ("http://10.1.2.3/", "refused_address"),
    ("http://172.16.0.1/", "refused_address"),
    ("http://192.168.1.1:8080/", "refused_address"),
    ("http://100.64.0.1/", "refused_address"),
    ("http://169.254.169.254/latest/meta-data/", "refused_address"),
    ("http://192.0.0.8/", "refused_address"),
    ("http://198.18.0.1/", "refused_address"),
    ("http://224.0.0.1/", "refused_address"),
    ("http://255.255.255.255/", "refused_address"),
    ("http://[::]/", "refused_address"),
    ("http://[::1]/", "refused_address"),
    ("http://[::ffff:127.0.0.1]/", "refused_address"),
    ("http://[::ffff:7f00:1]/", "refused_address"),
    ("http://[::127.0.0.1]/", "refused_address"),
    ("http://[64:ff9b::7f00:1]/", "refused_address"),
    ("http://[2002:7f00:1::]/", "refused_address"),
    ("http://[fd00::1]/", "refused_address"),
    ("http://[fe80::1]/", "refused_address"),
    ("http://[fec0::1]/", "refused_address"),
    ("http://[ff02::1]/", "refused_address"),
    ("http://inside.example/", "refused_address"),
    ("http://mixed.example/", "refused_address"),
    ("http://mapped.example/", "refused_address"),
    ("http://empty.example/", "refused_address"),
    ("http://absent.example/", "no_such_host"),
    ("http://①②⑦.⓪.⓪.①/", "any"),
    ("http://public.example@127.0.0.1/", "bad_url"),
    ("http://user:pass@public.example/", "bad_url"),
    ("ftp://public.example/", "bad_url"),
    ("file:///etc/passwd", "bad_url"),
    ("gopher://127.0.0.1:6379/_FLUSHALL", "bad_url"),
    ("data:text/plain,hello", "bad_url"),
    ("//127.0.0.1/", "bad_url"),
    ("http:///", "bad_url"),
    ("http://public.example:99999/", "bad_url"),
    ("http://public.example:0/", "bad_url"),
    ("public.example", "bad_url"),
    ("", "bad_url"),
    ("http://[::1", "bad_url"),
]


@pytest.mark.parametrize(("url", "type"), BAD_URLS)
def test_no_spelling_of_a_private_address_is_reached(url: str, type: str) -> None:
    """R38: a page or a model can't make the fleet talk to its own network."""
    net = Net(
        {
            "public.example": [PUBLIC],
            "inside.example": ["10.0.0.7"],
            "mixed.example": [PUBLIC, "127.0.0.1"],
            "mapped.example": ["::ffff:10.0.0.7"],
            "empty.example": [],
        },
        hello,
    )
    failure = failed(net.fetcher(), url)
    assert net.requests == []
    assert type in (failure.type, "any")
    assert failure.cls is not FailureClass.TRANSIENT


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "localhost", "[::1]"])
def test_the_tool_as_it_ships_refuses_this_machine(host: str) -> None:
    """R38: with the system's own resolver too."""
    with pytest.raises(ToolFailed) as caught:
        asyncio.run(fetch(f"http://{host}:1/"))  # type: ignore[operator]
    assert caught.value.failure.type == "refused_address"


@pytest.mark.parametrize("address", ["1.1.1.1", PUBLIC, "2606:4700:4700::1111", "::ffff:1.1.1.1"])
def test_public_addresses_are_public(address: str) -> None:
    known = literal(address)
    assert known is not None
    assert is_public(known)
    assert literal("x2.example") is None


@pytest.mark.parametrize(
    "target", ["http://127.0.0.1/admin", "//[::1]/", "http://inside.example/", "file:///etc/passwd", "http://0x7f.1/"]
)
def test_a_redirect_is_checked_like_the_first_url(target: str) -> None:
    """R38: a public page can't send the fleet inside."""
    net = Net(
        {"public.example": [PUBLIC], "inside.example": ["10.0.0.7"]},
        lambda request: httpx.Response(302, headers={"location": target}),
    )
    assert failed(net.fetcher(), "http://public.example/").type in ("refused_address", "bad_url")
    assert {request.url.host for request in net.requests} == {PUBLIC}


def test_a_name_bound_anew_after_the_check_changes_nothing() -> None:
    """R38: the connection goes to the address that was checked; the name is resolved once a fetch."""
    net = Net({"public.example": [PUBLIC]}, hello)

    def rebind(request: httpx.Request) -> httpx.Response:
        net.names["public.example"] = ["127.0.0.1"]
        if request.url.path == "/":
            return httpx.Response(302, headers={"location": "/again"})
        return hello(request)

    net.answer = rebind
    fetcher = net.fetcher()
    assert run(fetcher, "http://public.example/")["text"] == "hello"
    assert net.resolved == ["public.example"]
    assert {request.url.host for request in net.requests} == {PUBLIC}
    assert failed(fetcher, "http://public.example/").type == "refused_address"


def test_host_and_certificate_are_those_of_the_name() -> None:
    net = Net({"public.example": [PUBLIC]}, hello)
    page = run(net.fetcher(), "https://public.example:8443/a?b=c#d")
    request = net.requests[-1]
    assert str(request.url) == f"https://{PUBLIC}:8443/a?b=c"
    assert request.headers["host"] == "public.example:8443"
    assert request.extensions["sni_hostname"] == "public.example"
    assert page["url"] == "https://public.example:8443/a?b=c#d"


def test_the_next_address_is_tried_when_one_takes_no_connection() -> None:
    net = Net({"public.example": ["1.1.1.1", "2606:4700:4700::1111"]}, hello)

    def first_is_down(request: httpx.Request) -> httpx.Response:
        if request.url.host == "1.1.1.1":
            raise httpx.ConnectError("down")
        return hello(request)

    net.answer = first_is_down
    assert run(net.fetcher(), "http://public.example/")["text"] == "hello"
    assert net.requests[-1].url.host == "2606:4700:4700::1111"


def test_a_resolver_that_cannot_answer_now_is_asked_again_later() -> None:
    async def busy(host: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_AGAIN, "try again")

    assert failed(Fetcher(resolve=busy), "http://public.example/").cls is FailureClass.TRANSIENT


class Server(ThreadingHTTPServer):
    request_queue_size = 64


class Site:
    """A real server on this machine: path to (status, headers, body), and which paths were asked for."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.agents: set[str] = set()
        self.released = threading.Event()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                site.agents.add(self.headers["User-Agent"])
                if self.path == "/hangs":
                    site.released.wait(30)
                status, headers, body = site.answers.get(self.path, (404, {}, b""))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                try:
                    self.wfile.write(body)
                except OSError:
                    self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()
        self.fetcher = Fetcher(resolve=self.resolve, allow_private=True)

    async def resolve(self, _host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    def url(self, path: str) -> str:
        return f"http://site.example:{self.server.server_port}{path}"

    def page(self, path: str, body: str | bytes, kind: str = "text/html", status: int = 200, **headers: str) -> str:
        content = body if isinstance(body, bytes) else body.encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers[path] = (status, {"Content-Type": kind, **named}, content)
        return self.url(path)

    def close(self) -> None:
        self.released.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


def test_html_is_reduced_to_title_and_text(site: Site) -> None:
    url = site.page("/a", "<title>A page</title><h1>Head</h1><p>One &amp; two</p><script>no()</script>")
    assert run(site.fetcher, url) == {"url": url, "title": "A page", "text": "Head\n\nOne & two"}
    assert site.asked == ["/robots.txt", "/a"]
    assert all(agent.startswith("celery-agent-fleet/") for agent in site.agents)


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("application/json", b'{"a": 1}', '{"a": 1}'),
        ("application/ld+json; charset=utf-8", b"{}", "{}"),
        ("text/markdown", b"# A", "# A"),
        ("application/atom+xml", b"<a>b</a>", "<a>b</a>"),
        ("text/plain; charset=latin-1", "Grüße".encode("latin-1"), "Grüße"),
        ("text/plain; charset=nonsense", b"plain", "plain"),
    ],
)
def test_texts_of_other_kinds_are_given_as_they_are(site: Site, kind: str, body: bytes, text: str) -> None:
    assert run(site.fetcher, site.page("/a", body, kind))["text"] == text


@pytest.mark.parametrize("kind", ["application/pdf", "image/png", "application/octet-stream", ""])
def test_what_is_no_text_is_not_read(site: Site, kind: str) -> None:
    assert failed(site.fetcher, site.page("/a", b"\x89", kind)).type == "unsupported_type"


def test_a_page_that_is_compressed_all_the_same_is_not_unpacked(site: Site) -> None:
    url = site.page("/a", b"\x1f\x8b", "text/html", Content_Encoding="gzip")
    assert failed(site.fetcher, url).type == "unsupported_encoding"


def test_a_page_above_two_megabytes_is_cut_off(site: Site) -> None:
    assert len(run(site.fetcher, site.page("/a", b"x" * 2_000_000, "text/plain"))["text"]) == 2_000_000
    assert failed(site.fetcher, site.page("/b", b"x" * 2_000_001, "text/plain")).type == "too_large"


@pytest.mark.parametrize(
    ("status", "cls"), [(404, "permanent"), (403, "permanent"), (410, "permanent"), (304, "permanent")]
)
def test_a_refusal_of_the_server_is_final(site: Site, status: int, cls: str) -> None:
    """R30: a permanent failure goes to the joiner."""
    failure = failed(site.fetcher, site.page("/a", "", status=status, Retry_After="5"))
    assert (failure.type, failure.cls, failure.retry_after) == (f"http_{status}", cls, None)


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_a_server_in_trouble_is_asked_again_when_it_says(site: Site, status: int) -> None:
    """R30: a transient failure goes to the engine, with Retry-After."""
    failure = failed(site.fetcher, site.page("/a", "", status=status, Retry_After="7"))
    assert (failure.type, failure.cls, failure.retry_after) == (f"http_{status}", FailureClass.TRANSIENT, 7)


def test_retry_after_may_be_a_date_or_nonsense(site: Site) -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    after = failed(site.fetcher, site.page("/a", "", status=503, Retry_After=soon)).retry_after
    assert after is not None
    assert 90 < after <= 100
    assert failed(site.fetcher, site.page("/b", "", status=503, Retry_After="soon")).retry_after is None
    assert failed(site.fetcher, site.page("/c", "", status=503)).retry_after is None


def test_redirects_are_followed_five_times(site: Site) -> None:
    for n in range(7):
        site.page(f"/{n}", "", status=302, Location=f"/{n + 1}")
    site.page("/7", "<p>end</p>")
    assert run(site.fetcher, site.url("/2"))["url"] == site.url("/7")
    assert failed(site.fetcher, site.url("/1")).type == "too_many_redirects"


def test_robots_txt_is_honoured_and_read_once(site: Site) -> None:
    site.page("/robots.txt", "User-agent: *\nDisallow: /private\n", "text/plain")
    site.page("/open", "<p>yes</p>")
    site.page("/private/a", "<p>no</p>")
    site.page("/to", "", status=302, Location="/private/a")
    assert run(site.fetcher, site.url("/open"))["text"] == "yes"
    assert failed(site.fetcher, site.url("/private/a")).type == "robots"
    assert failed(site.fetcher, site.url("/to")).type == "robots"
    assert site.asked.count("/robots.txt") == 1
    assert "/private/a" not in site.asked


def test_robots_txt_that_cannot_be_had_now_is_waited_for(site: Site) -> None:
    """RFC 9309: a server error means that nothing may be fetched, for now."""
    site.page("/robots.txt", "", status=503)
    failure = failed(site.fetcher, site.page("/a", "<p>a</p>"))
    assert (failure.type, failure.cls) == ("http_503", FailureClass.TRANSIENT)
    assert site.asked == ["/robots.txt"]


def test_a_server_that_does_not_answer_is_left(site: Site) -> None:
    fetcher = Fetcher(resolve=site.resolve, allow_private=True, timeout=0.3)
    failure = failed(fetcher, site.url("/hangs"))
    assert (failure.type, failure.cls) == ("timeout", FailureClass.TRANSIENT)


def test_a_port_where_nobody_listens_is_unreachable() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}/"
        failure = failed(Fetcher(allow_private=True), url)
    assert (failure.type, failure.cls) == ("unreachable", FailureClass.TRANSIENT)


def test_a_message_never_holds_the_path_of_a_url(site: Site) -> None:
    """R38: a query may hold a secret."""
    assert "hunter2" not in failed(site.fetcher, site.url("/a?token=hunter2")).message


def test_proxies_of_the_environment_are_not_used(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """R38: a proxy would resolve the name again, behind the check."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert urllib.request.getproxies()["http"] == "http://127.0.0.1:1"
    assert run(site.fetcher, site.page("/a", "<p>a</p>"))["text"] == "a"


def test_a_fetch_leaves_nothing_open_on_any_loop(site: Site) -> None:
    """R37: each fetch closes its connections, and the fetcher belongs to no event loop."""
    url = site.page("/a", "<p>a</p>")

    async def many() -> list[Any]:
        tool = fetch_tool(site.fetcher)
        return await asyncio.gather(*(tool.call({"url": url}, ToolContext()) for _ in range(20)))

    for _ in range(2):
        assert {page["text"] for page in asyncio.run(many())} == {"a"}
