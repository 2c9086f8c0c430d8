"""Server-sent events: the parser, and the stream that resumes after a lost connection."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, cast

from ._errors import APIError, APIConnectionError, ParleyError, StreamRestartedError
from ._transport import Live, Request, Transport
from .types import Run, RunEvent

_STEADY = 10.0  # seconds; the loss of a connection that lasted longer counts as the first failure


class Parser:
    """Parses bytes, in chunks of any size, into events."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._searched = 0
        self._fields: dict[bytes, bytes] = {}

    def feed(self, data: bytes) -> Iterable[RunEvent]:
        """Yield the events that these bytes complete."""
        self._rest += data
        begin = 0
        while (end := self._rest.find(b"\n", max(begin, self._searched))) >= 0:
            line = bytes(self._rest[begin:end]).removesuffix(b"\r")
            begin = end + 1
            if line:
                self._field(line)
            elif fields := self._taken():
                yield _event(fields)
        del self._rest[:begin]
        self._searched = len(self._rest)

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data" and name in self._fields:
            value = self._fields[name] + b"\n" + value
        self._fields[name] = value  # the name of a comment line is empty, and that field is never read

    def _taken(self) -> dict[bytes, bytes]:
        fields, self._fields = self._fields, {}
        return fields if b"data" in fields else {}


def _event(fields: dict[bytes, bytes]) -> RunEvent:
    try:
        event = {"id": fields[b"id"].decode(), "event": fields[b"event"].decode(), "data": json.loads(fields[b"data"])}
    except (KeyError, ValueError) as error:
        raise ParleyError(f"invalid event in the stream: {error!r}") from None
    return cast(RunEvent, event)


class Source:
    """The events of a run, read over as many connections as necessary.

    One thread at a time reads with `fill`. It adds events to `ready`, from which any thread may
    take them.
    """

    def __init__(self, transport: Transport, begin: Request, resume: Callable[[str], Request | None], last: str | None = None) -> None:
        self.ready: deque[RunEvent] = deque()
        self.run: Run | None = None  # set when the last event has been read
        self.run_id: str | None = None
        self.over = False  # whether no more events will be read
        self.last = last  # id of the last event that was read
        self.given = last  # id of the last event that the caller has received
        self._transport = transport
        self._begin = begin
        self._resume = resume  # returns the request that resumes the run; if it is None, the first request is repeated
        self._reading = threading.Lock()
        self._live: Live | None = None
        self._parser = Parser()
        self._opened = 0.0
        self._failures = 0

    def fill(self) -> None:
        """Wait for the next event. Afterwards `ready` contains an event, or the stream is over."""
        with self._reading:
            while not self.ready and not self.over:
                try:
                    self._read()
                except (APIError, APIConnectionError) as error:
                    self._disconnect()
                    self._recover(error)
                except BaseException:
                    self._disconnect()
                    raise
            if self.over:
                self._disconnect()

    def take(self) -> RunEvent:
        """Return the next event that was read."""
        event = self.ready.popleft()
        self.given = event["id"]
        return event

    def _read(self) -> None:
        if self._live is None:
            self._connect()
            return
        data = self._live.read()
        for event in self._parser.feed(data):
            if self.last is None or _number(event["id"]) > _number(self.last):
                self._accept(event)
        if not data and not self.over:
            raise APIConnectionError("the stream ended before the run finished")

    def _accept(self, event: RunEvent) -> None:
        self.last = event["id"]
        self.run_id = event["data"]["runId"]
        self.ready.append(event)
        self._failures = 0
        data = cast(dict[str, Any], event["data"])
        if "run" in data:  # the last event of the run
            self.run = data["run"]
            self.over = True

    def _connect(self) -> None:
        request = (self._resume(self.run_id) if self.run_id else None) or self._begin
        headers = {**request.headers, "Accept": "text/event-stream", **({"Last-Event-ID": self.last} if self.last else {})}
        live = self._transport.open(Request(request.method, request.path, request.query, headers, request.body))
        if live.status == 204:  # the run has finished, and `last` is its last event
            live.close()
            self.over = True
            return
        if not live.headers.get("content-type", "").startswith("text/event-stream"):
            live.close()
            raise ParleyError(f"{request.method} {request.path}: the response is not an event stream; check base_url")
        self._live, self._parser, self._opened = live, Parser(), self._transport.clock()
        self.run_id = self.run_id or live.headers.get("location", "").partition("id=")[2] or None

    def _recover(self, error: ParleyError) -> None:
        """Wait before the next connection. Raise the error if the stream must not reconnect."""
        if self.over:
            return
        if self._opened and self._transport.clock() - self._opened > _STEADY:
            self._failures = 0
        self._opened = 0.0
        delay = self._transport.delay(error, self._failures, repeatable=True)
        if delay is None:
            raise error
        if self._failures or self.last is None or isinstance(error, APIError):
            self._transport.pause(delay)  # the first reconnection is immediate; after repeated failures there is a pause
        self._failures += 1

    def _disconnect(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            live.close()

    def leave(self) -> None:
        """Close the connection, from any thread.

        A later `fill` reconnects and continues after the last event that was read.
        """
        if self._reading.acquire(blocking=False):
            try:
                self._disconnect()
            finally:
                self._reading.release()
        elif (live := self._live) is not None:
            live.abort()  # the reading thread closes the connection

    def close(self) -> None:
        """Close the stream permanently."""
        self.over = True
        self.leave()


class Told:
    """Tracks the text that a reader has received. The text cannot be retracted."""

    def __init__(self) -> None:
        self._told: list[str] = []
        self._again: str | None = None  # text of an abandoned attempt that the new attempt has not repeated yet

    def text(self, event: RunEvent) -> str:
        """Return the part of an event's text that the reader has not received."""
        if event["event"] == "run.restarted":
            self._again = "".join(self._told)
            self._told = [self._again]
        if event["event"] == "run.completed" and self._again:
            raise StreamRestartedError(f"run {event['data']['runId']} was restarted, and its answer lacks text that was already returned")
        if event["event"] != "message.delta":
            return ""
        fresh = event["data"]["text"]
        if self._again:
            again, fresh = fresh[: len(self._again)], fresh[len(self._again) :]
            if not self._again.startswith(again):
                raise StreamRestartedError(f"run {event['data']['runId']} was restarted with a different answer")
            self._again = self._again[len(again) :]
        self._told.append(fresh)
        return fresh


def _number(event_id: str) -> tuple[int, int]:
    attempt, _, number = event_id.partition(".")
    return int(attempt), int(number)
