"""Fetches web pages for a tool: public addresses only, connected to as they were checked, politely and within limits.

httpx is imported by the first fetch, since it takes longer than all else of a worker's start.
"""

import asyncio
import functools
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urljoin, urlsplit
from urllib.robotparser import RobotFileParser

from fleet import __version__
from fleet.core.outcome import FailureClass
from fleet.tools.addresses import is_public, literal
from fleet.tools.formats import html_page
from fleet.tools.tool import ToolFailed

if TYPE_CHECKING:
    import httpx

Resolver = Callable[[str, int], Awaitable[list[str]]]
"""(host, port) to its addresses, as text. Raises socket.gaierror."""

ROBOT = "celery-agent-fleet"
REDIRECTS = 5
LARGEST = 2_000_000
LARGEST_ROBOTS = 500_000
MOST_ROBOTS = 256
ROBOTS_FOR = 600.0
READABLE = ("text/", "application/json", "application/xml", "application/xhtml+xml")


class Page(NamedTuple):
    """An answer with status 200 to 299. kind: its media type; content: undecoded; charset: as it was announced."""

    url: str
    kind: str
    content: bytes
    charset: str


async def system_resolver(host: str, port: int) -> list[str]:
    """The addresses that the system's resolver gives."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Fetcher:
    """Fetches pages. resolve, transport and allow_private are for tests: a server on this machine is a private address.

    timeout: seconds for a page, its redirects and robots.txt included. A host is resolved once a fetch, every address
    it has must be public, and the connection goes to the address that was checked, so that a name can't be bound anew
    in between. Proxies of the environment are not used, since they would resolve the name again.
    """

    def __init__(
        self,
        *,
        resolve: Resolver = system_resolver,
        transport: "Callable[[], httpx.AsyncBaseTransport] | None" = None,
        allow_private: bool = False,
        timeout: float = 20.0,
    ) -> None:
        self._resolve = resolve
        self._transport = transport or _transport
        self._allow_private = allow_private
        self._timeout = timeout
        self._robots: dict[str, tuple[float, RobotFileParser]] = {}

    async def fetch(self, url: str) -> Page:
        """The page at a URL, after at most 5 redirects, each checked like the first. Raises ToolFailed.

        Types: bad_url, refused_address, robots, too_large, too_many_redirects, unsupported_type, unsupported_encoding,
        no_such_host, http_<status>, and (transient) timeout, unreachable, http_429, http_5xx.
        """
        import httpx  # noqa: PLC0415 - slow to import

        try:
            async with asyncio.timeout(self._timeout), self._transport() as transport:
                return await _Visit(self, transport).page(url)
        except (TimeoutError, httpx.TimeoutException):
            raise _transient("timeout", f"{_host(url)} did not answer within {self._timeout:g} s") from None
        except httpx.TransportError as cause:
            raise _transient("unreachable", f"{_host(url)} can't be reached: {type(cause).__name__}") from None

    async def addresses(self, host: str, port: int) -> list[str]:
        """The addresses of a host, each of which may be reached. Raises ToolFailed."""
        try:
            known = literal(host)
            found = [str(known)] if known else await self._resolve(host, port)
            allowed = self._allow_private or all(is_public(ip_address(each)) for each in found)
        except ValueError:
            raise ToolFailed("refused_address", f'"{host[:100]}" is not an address that may be fetched') from None
        except socket.gaierror as cause:
            if cause.errno == socket.EAI_AGAIN:
                raise _transient("unreachable", f"{host} can't be resolved now") from None
            raise ToolFailed("no_such_host", f"there is no host {host}") from None
        if not allowed or not found:
            raise ToolFailed("refused_address", f"{host} is not on the open internet, and is not fetched")
        return found

    def known_robots(self, origin: str) -> RobotFileParser | None:
        """The robots.txt of an origin, if it was read within the last ten minutes."""
        at, rules = self._robots.get(origin, (float("-inf"), None))
        return rules if time.monotonic() - at < ROBOTS_FOR else None

    def keep_robots(self, origin: str, rules: RobotFileParser) -> None:
        while len(self._robots) >= MOST_ROBOTS:
            self._robots.pop(next(iter(self._robots)))
        self._robots[origin] = (time.monotonic(), rules)


class _Visit:
    """One fetch: each of its hosts is resolved once."""

    def __init__(self, fetcher: Fetcher, transport: "httpx.AsyncBaseTransport") -> None:
        self._fetcher = fetcher
        self._transport = transport
        self._addresses: dict[tuple[str, int], list[str]] = {}

    async def page(self, url: str) -> Page:
        answer = await self._followed(url, LARGEST, polite=True)
        if isinstance(answer, Page):
            return answer
        raise answer

    async def _followed(self, url: str, largest: int, polite: bool) -> Page | ToolFailed:
        for _ in range(REDIRECTS + 1):
            target = _parsed(url)
            if polite:
                await self._ask_robots(target)
            answer = await self._once(target, largest, polite)
            if not isinstance(answer, str):
                return answer
            url = urljoin(str(target), answer)
        raise ToolFailed("too_many_redirects", f"{_host(url)} redirects more than {REDIRECTS} times")

    async def _ask_robots(self, url: "httpx.URL") -> None:
        origin = str(url.copy_with(raw_path=b"/", fragment=None))
        rules = self._fetcher.known_robots(origin)
        if rules is None:
            rules = await self._read_robots(f"{origin}robots.txt")
            self._fetcher.keep_robots(origin, rules)
        if not rules.can_fetch(ROBOT, str(url)):
            raise ToolFailed("robots", f"the robots.txt of {url.host} asks not to fetch this page")

    async def _read_robots(self, url: str) -> RobotFileParser:
        """The rules there. As in RFC 9309: none if there is no such file (4xx); if it can't be had now, a failure."""
        answer = await self._followed(url, LARGEST_ROBOTS, polite=False)
        if isinstance(answer, ToolFailed) and answer.failure.retryable:
            raise answer
        rules = RobotFileParser()
        rules.parse(answer.content.decode("utf-8", "replace").splitlines() if isinstance(answer, Page) else [])
        return rules

    async def _once(self, url: "httpx.URL", largest: int, polite: bool) -> Page | ToolFailed | str:
        """A page, a failure for its status, or where it redirects to."""
        response = await self._answer(url)
        try:
            status = response.status_code
            if status in (301, 302, 303, 307, 308) and "location" in response.headers:
                return str(response.headers["location"])
            if not response.is_success:
                return _refusal(url.host, status, response.headers)
            kind = _readable(url.host, response.headers, any_kind=not polite)
            content = await _bounded(response, url.host, largest)
            return Page(str(url), kind, content, response.charset_encoding or "")
        finally:
            await response.aclose()

    async def _answer(self, url: "httpx.URL") -> "httpx.Response":
        """The response from the first checked address that takes a connection."""
        import httpx  # noqa: PLC0415 - slow to import

        host = url.raw_host.decode("ascii").strip("[]")
        key = (host, url.port or {"http": 80, "https": 443}[url.scheme])
        if key not in self._addresses:
            self._addresses[key] = await self._fetcher.addresses(*key)
        refused: httpx.TransportError | None = None
        for address in self._addresses[key]:
            request = httpx.Request(
                "GET",
                url.copy_with(host=address, fragment=None),
                headers={
                    "Host": url.netloc.decode("ascii"),
                    "User-Agent": f"{ROBOT}/{__version__}",
                    "Accept": "text/html, text/markdown, text/plain, application/json, application/xml",
                    "Accept-Encoding": "identity",
                },
                extensions={"sni_hostname": host, "timeout": _TIMEOUTS},
            )
            try:
                return await self._transport.handle_async_request(request)
            except (httpx.ConnectError, httpx.ConnectTimeout) as cause:
                refused = cause
        raise refused or httpx.ConnectError("no address")


_TIMEOUTS: Mapping[str, float] = {"connect": 5.0, "read": 15.0, "write": 5.0, "pool": 5.0}


def _parsed(url: str) -> "httpx.URL":
    import httpx  # noqa: PLC0415 - slow to import

    try:
        parsed = httpx.URL(url)
        port = urlsplit(url).port
    except (httpx.InvalidURL, ValueError):
        raise ToolFailed("bad_url", f'"{url[:100]}" is not a URL', FailureClass.MISUSE) from None
    if parsed.scheme not in ("http", "https") or not parsed.host or port == 0:
        raise ToolFailed("bad_url", "only http:// and https:// URLs with a host are fetched", FailureClass.MISUSE)
    if parsed.userinfo:
        raise ToolFailed("bad_url", "a URL that holds a user name or password is not fetched", FailureClass.MISUSE)
    return parsed


def _readable(host: str, headers: "httpx.Headers", any_kind: bool) -> str:
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise ToolFailed("unsupported_encoding", f"{host} sends the page compressed, though asked not to")
    kind: str = headers.get("content-type", "").partition(";")[0].strip().lower()
    if any_kind or kind.startswith(READABLE) or kind.endswith(("+json", "+xml")):
        return kind
    raise ToolFailed("unsupported_type", f'{host} sends "{kind[:80]}"; text, HTML, Markdown, JSON and XML are read')


async def _bounded(response: "httpx.Response", host: str, largest: int) -> bytes:
    content = bytearray()
    async for chunk in response.aiter_raw():
        content += chunk
        if len(content) > largest:
            raise ToolFailed("too_large", f"the page of {host} has more than {largest} bytes")
    return bytes(content)


def _refusal(host: str, status: int, headers: "httpx.Headers") -> ToolFailed:
    transient = status in (408, 425, 429) or status >= 500
    return ToolFailed(
        f"http_{status}",
        f"{host} answered with status {status}",
        FailureClass.TRANSIENT if transient else FailureClass.PERMANENT,
        _retry_after(headers.get("retry-after", "")) if transient else None,
    )


def _retry_after(value: str) -> float | None:
    """Seconds until then: the header holds seconds or a date."""
    if value.strip().isascii() and value.strip().isdigit():
        return float(value)
    try:
        then = parsedate_to_datetime(value)
    except ValueError:
        return None
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    return max(0.0, (then - datetime.now(UTC)).total_seconds())


def _host(url: str) -> str:
    """The host for a message: never the path or query, which may hold a secret."""
    try:
        return urlsplit(url).hostname or "the host"
    except ValueError:
        return "the host"


def _transient(type: str, message: str) -> ToolFailed:
    return ToolFailed(type, message, FailureClass.TRANSIENT)


@functools.cache
def _tls() -> Any:
    import httpx  # noqa: PLC0415 - slow to import

    return httpx.create_ssl_context(trust_env=False)


def _transport() -> "httpx.AsyncBaseTransport":
    import httpx  # noqa: PLC0415 - slow to import

    return httpx.AsyncHTTPTransport(verify=_tls(), trust_env=False)


def readable(page: Page) -> tuple[str, str]:
    """The title (or nothing) and the text of a page; HTML is reduced to its visible text."""
    try:
        text = page.content.decode(page.charset or "utf-8", "replace")
    except LookupError:
        text = page.content.decode("utf-8", "replace")
    if "html" not in page.kind:
        return "", text
    title, blocks = html_page(text)
    return title, "\n\n".join(block.text for block in blocks)
