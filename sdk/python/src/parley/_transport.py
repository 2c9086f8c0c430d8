"""Requests over reused connections.

A connection carries one request at a time, and any number of threads may send.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import random
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast
from urllib.parse import urlencode, urlsplit

from ._errors import APIError, APIConnectionError, NotFoundError, ParleyError, APITimeoutError, api_error

_T = TypeVar("_T")

_log = logging.getLogger("parley")

_IDLE = 60.0  # seconds for which an idle connection is kept; well below the service's limit of two minutes
_IDLE_CONNECTIONS = 64
_LONGEST_PAUSE = 60.0  # seconds; a longer Retry-After is not retried automatically
_SILENCE = 30.0  # seconds without data after which a stream counts as broken; the service sends something every 10 seconds


@dataclass(frozen=True)
class Request:
    """A request, which may be sent several times."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)  # None values are omitted, and lists become repeated parameters
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    repeatable: bool = True  # whether sending the request twice has the same effect as sending it once

    def __post_init__(self) -> None:
        """Reject values that a server could read as another header."""
        for name, value in self.headers.items():
            if any(mark in value for mark in "\0\r\n"):
                raise ParleyError(f"{name} contains a line break")

    def target(self) -> str:
        """Return the path and query of the request."""
        query = urlencode([(name, value) for name, value in self.query.items() if value is not None], doseq=True, errors="surrogatepass")
        return f"{self.path}?{query}" if query else self.path


class Call:
    """A call in progress, which another thread may cancel.

    Cancelling the call closes its connection and ends its pauses.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Cancel the call, which then fails."""
        with self._lock:
            self._cancelled.set()
            _hang_up(self._socket)

    def check(self) -> None:
        """Raise if the call was cancelled."""
        if self._cancelled.is_set():
            raise ParleyError("the call was cancelled")

    def pause(self, seconds: float) -> None:
        """Wait for some seconds. Raise if the call is cancelled meanwhile."""
        self._cancelled.wait(seconds)
        self.check()

    @contextlib.contextmanager
    def using(self, sock: socket.socket | None) -> Iterator[None]:
        """Set the connection that `cancel` closes."""
        with self._lock:
            self.check()
            self._socket = sock
        try:
            yield
        finally:
            with self._lock:
                self._socket = None


CURRENT: ContextVar[Call | None] = ContextVar("parley_call", default=None)
"""The call that the current worker thread executes, or None in other threads."""


def current() -> Call:
    """Return the call in progress."""
    return CURRENT.get() or Call()


class Connection:
    """A connection, used by one thread at a time."""

    def __init__(self, link: http.client.HTTPConnection) -> None:
        self.link = link
        self.socket: socket.socket | None = None  # kept separately, because http.client drops it when a response ends the connection
        self.fresh = True
        self._process = os.getpid()
        self._since = 0.0

    def connect(self, address: str) -> None:
        """Connect if necessary. An error names the URL."""
        if self.socket is None:
            with _failures(sent=False, where=f"{address}: "):
                self.link.connect()
            self.socket = self.link.sock

    def rest(self) -> None:
        """Mark the connection as idle."""
        self.fresh, self._since = False, time.monotonic()

    def usable(self) -> bool:
        """Whether the connection can be used for another request.

        A forked child must not use its parent's connection. An idle connection that is readable
        was closed by the service.
        """
        if self.socket is None or self._process != os.getpid() or time.monotonic() - self._since > _IDLE:
            return False
        return not _readable(self.socket)

    def close(self) -> None:
        """Close the connection, unless it belongs to the parent process."""
        if self._process == os.getpid():
            _hang_up(self.socket)
        self.link.close()


class Live:
    """A response that is being read."""

    def __init__(self, connection: Connection, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.connection = connection
        self.response = response

    def whole(self) -> bytes:
        """Return the whole body."""
        with current().using(self.connection.socket), _failures():
            return self.response.read()

    def read(self) -> bytes:
        """Return the next part of the body. It has at least one byte, except at the end of the body.
        """
        sock = self.connection.socket
        with current().using(sock), _failures():
            if sock is not None:
                sock.settimeout(_SILENCE)
            return self.response.read1(65536)

    def abort(self) -> None:
        """Close the connection. If another thread is reading from it, that read fails."""
        _hang_up(self.connection.socket)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()
        self.response.close()


class Transport:
    """Sends requests with a credential to a service. Retries them where a retry is useful and safe.
    """

    def __init__(
        self, base_url: str, headers: Mapping[str, str], timeout: float, max_retries: int, context: ssl.SSLContext | None
    ) -> None:
        url = urlsplit(base_url)
        if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment or url.username:
            raise ValueError(f"base_url must be a URL such as https://parley.example.com, not {base_url!r}")
        if timeout <= 0 or max_retries < 0:
            raise ValueError("timeout must be above 0, and max_retries at least 0")
        self.timeout = timeout
        self.max_retries = max_retries
        self.pause: Callable[[float], None] = lambda seconds: current().pause(seconds)
        self.clock: Callable[[], float] = time.monotonic
        self._address = base_url
        self._prefix = url.path.rstrip("/")
        self._headers = headers
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._closed = False
        host, port = url.hostname, url.port
        if url.scheme == "https":
            secure = context or ssl.create_default_context()
            self._connect: Callable[[], http.client.HTTPConnection] = lambda: http.client.HTTPSConnection(
                host, port, timeout=timeout, context=secure
            )
        else:
            self._connect = lambda: http.client.HTTPConnection(host, port, timeout=timeout)

    def call(self, kind: type[_T], request: Request) -> _T:
        """Send a request and return the JSON of its response. `kind` is the type of that JSON."""
        return self._persist(request, lambda: cast(_T, self._once(request)))

    def content(self, request: Request) -> bytes:
        """Send a request, and return the body of its response."""
        return self._persist(request, lambda: self._whole(self.open(request)))

    def _persist(self, request: Request, send: Callable[[], _T]) -> _T:
        failures, lost = 0, False
        while True:
            try:
                return send()
            except (APIError, APIConnectionError) as error:
                if lost and request.method == "DELETE" and isinstance(error, NotFoundError):
                    return cast(_T, {"id": request.query["id"], "deleted": True})  # deleted by the first request, whose response was lost
                lost = lost or (isinstance(error, APIConnectionError) and error.sent)
                delay = self.delay(error, failures, request.repeatable)
                if delay is None:
                    raise
                _log.debug("%s %s again in %.2f s: %s", request.method, request.path, delay, error)
                failures += 1
                self.pause(delay)

    def _once(self, request: Request) -> Any:
        body = self._whole(self.open(request))
        try:
            return json.loads(body)
        except ValueError:
            raise ParleyError(f"{request.method} {request.path}: the response is not JSON; check base_url") from None

    def open(self, request: Request) -> Live:
        """Send a request once, and return its response with an unread body.

        Raise if the response is not successful.
        """
        call = current()
        call.check()
        connection = self._take(request)
        try:
            live = Live(connection, self._exchange(call, connection, request))
        except BaseException as error:
            connection.close()
            if not isinstance(error, APIConnectionError) or isinstance(error, APITimeoutError) or connection.fresh:
                raise
        else:
            if live.status < 300:
                return live
            raise api_error(live.status, live.headers, self._whole(live))
        # Servers close idle connections. This connection may have been closed just before it was
        # used.
        self._forget()
        return self.open(request)

    def _exchange(self, call: Call, connection: Connection, request: Request) -> http.client.HTTPResponse:
        # The values are encoded as UTF-8, because names of automations may contain any characters.
        # http.client accepts UTF-8 only as bytes.
        headers: Any = {name: value.encode(errors="surrogatepass") for name, value in {**self._headers, **request.headers}.items()}
        connection.connect(self._address)
        with call.using(connection.socket), _failures():
            connection.link.request(request.method, self._prefix + request.target(), request.body, headers)
            return connection.link.getresponse()

    def _whole(self, live: Live) -> bytes:
        complete = False
        try:
            body = live.whole()
            complete = not live.response.will_close
            return body
        finally:
            if complete:
                self._give_back(live.connection)
            else:
                live.close()

    def delay(self, error: ParleyError, failures: int, repeatable: bool) -> float | None:
        """Return the seconds after which a failed request is sent again, or None if it must not be
        sent again.
        """
        if failures >= self.max_retries:
            return None
        backoff: float = min(8.0, 0.5 * 2**failures) * random.uniform(0.75, 1)
        if isinstance(error, APIConnectionError):
            return backoff if repeatable or not error.sent else None
        if not isinstance(error, APIError) or not error.retryable or (error.status < 500 and error.status not in (408, 409, 429)):
            return None
        if not repeatable and error.status not in (429, 503):  # only these two statuses guarantee that nothing was accepted
            return None
        if error.retry_after is not None:
            return max(error.retry_after, backoff) if error.retry_after <= _LONGEST_PAUSE else None
        return backoff

    def _take(self, request: Request) -> Connection:
        with self._lock:
            if self._closed:
                raise ParleyError("the client is closed")
        # A request that is not repeatable gets a new connection. If an idle connection broke, it
        # would be unknown whether the request was executed.
        while request.repeatable and request.method != "DELETE":
            with self._lock:
                if not self._idle:
                    break
                connection = self._idle.pop()
            if connection.usable():
                return connection
            connection.close()
        return Connection(self._connect())

    def _give_back(self, connection: Connection) -> None:
        connection.rest()
        with self._lock:
            if not self._closed and len(self._idle) < _IDLE_CONNECTIONS:
                self._idle.append(connection)
                return
        connection.close()

    def _forget(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def close(self) -> None:
        """Close the idle connections. Further requests fail."""
        with self._lock:
            self._closed = True
        self._forget()

    def __del__(self) -> None:
        for connection in getattr(self, "_idle", ()):
            connection.close()


@contextlib.contextmanager
def _failures(sent: bool = True, where: str = "") -> Iterator[None]:
    """Convert the exceptions of sockets and http.client into exceptions of this package."""
    try:
        yield
    except (OSError, http.client.HTTPException) as error:
        kind = APITimeoutError if isinstance(error, TimeoutError) else APIConnectionError
        problem = kind(where + type(error).__name__ + (f": {error}" if str(error) else ""))
        problem.sent = sent
        raise problem from error


def _hang_up(sock: socket.socket | None) -> None:
    """Shut down both directions of a socket. Closing it alone would leave a reading thread waiting.
    """
    if sock is not None:
        with contextlib.suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)  # closes the TCP socket below TLS, which any thread may do


def _readable(sock: socket.socket) -> bool:
    if hasattr(select, "poll"):  # select cannot handle file descriptors from 1024 on
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([sock], [], [], 0)[0])
