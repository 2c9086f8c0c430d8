"""Server-sent events: the lines of a stream, and the stream that goes on after a cut."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, cast

from ._errors import APIError, ConnectionError, ParleyError, StreamRestartedError
from ._transport import Live, Request, Transport
from .types import Run, RunEvent

_STEADY = 10.0  # seconds that a connection must have held for its cut to count as the first one


class Parser:
    """Makes events of bytes, wherever these are divided."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._searched = 0
        self._fields: dict[bytes, bytes] = {}

    def feed(self, data: bytes) -> Iterable[RunEvent]:
        """Give the events that are complete with these bytes."""
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
        self._fields[name] = value  # a comment is the field without a name

    def _taken(self) -> dict[bytes, bytes]:
        fields, self._fields = self._fields, {}
        return fields if b"data" in fields else {}


def _event(fields: dict[bytes, bytes]) -> RunEvent:
    try:
        event = {"id": fields[b"id"].decode(), "event": fields[b"event"].decode(), "data": json.loads(fields[b"data"])}
    except (KeyError, ValueError) as error:
        raise ParleyError(f"the stream has an event that cannot be read: {error!r}") from None
    return cast(RunEvent, event)


class Source:
    """The events of one run, read over as many connections as it takes.

    One thread at a time reads (`fill`); what it has read is in `ready`, which any thread may take from.
    """

    def __init__(self, transport: Transport, begin: Request, resume: Callable[[str], Request | None], last: str | None = None) -> None:
        self.ready: deque[RunEvent] = deque()
        self.run: Run | None = None  # once the last event was read
        self.run_id: str | None = None
        self.over = False  # nothing more will be read
        self.last = last  # the id of the last event that was read
        self.given = last  # of the last that was taken
        self._transport = transport
        self._begin = begin
        self._resume = resume  # how to go on, by the run's id; None: by the request that began
        self._reading = threading.Lock()
        self._live: Live | None = None
        self._parser = Parser()
        self._opened = 0.0
        self._failures = 0

    def fill(self) -> None:
        """Wait for the next event; afterwards there is one in `ready`, or the stream is over."""
        with self._reading:
            while not self.ready and not self.over:
                try:
                    self._read()
                except (APIError, ConnectionError) as error:
                    self._disconnect()
                    self._recover(error)
                except BaseException:
                    self._disconnect()
                    raise
            if self.over:
                self._disconnect()

    def take(self) -> RunEvent:
        """Give the next event that was read."""
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
            raise ConnectionError("the stream ended before the run did")

    def _accept(self, event: RunEvent) -> None:
        self.last = event["id"]
        self.run_id = event["data"]["runId"]
        self.ready.append(event)
        self._failures = 0
        data = cast(dict[str, Any], event["data"])
        if "run" in data:  # the last event, whatever the run's end is called
            self.run = data["run"]
            self.over = True

    def _connect(self) -> None:
        request = (self._resume(self.run_id) if self.run_id else None) or self._begin
        headers = {**request.headers, "Accept": "text/event-stream", **({"Last-Event-ID": self.last} if self.last else {})}
        live = self._transport.open(Request(request.method, request.path, request.query, headers, request.body))
        if live.status == 204:  # the run has ended, and `last` is its last event
            live.close()
            self.over = True
            return
        if not live.headers.get("content-type", "").startswith("text/event-stream"):
            live.close()
            raise ParleyError(f"{request.method} {request.path}: the answer is no stream; is base_url a Parley?")
        self._live, self._parser, self._opened = live, Parser(), self._transport.clock()
        self.run_id = self.run_id or live.headers.get("location", "").partition("id=")[2] or None

    def _recover(self, error: ParleyError) -> None:
        """Wait as long as is good before the next connection; raise the error when there should be none."""
        if self.over:
            return
        if self._opened and self._transport.clock() - self._opened > _STEADY:
            self._failures = 0
        self._opened = 0.0
        delay = self._transport.delay(error, self._failures, repeatable=True)
        if delay is None:
            raise error
        if self._failures or self.last is None or isinstance(error, APIError):
            self._transport.pause(delay)  # a stream that was cut goes on at once; only what fails again waits
        self._failures += 1

    def _disconnect(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            live.close()

    def leave(self) -> None:
        """Close the connection, from any thread; `fill` would open another one and go on behind what was read."""
        if self._reading.acquire(blocking=False):
            try:
                self._disconnect()
            finally:
                self._reading.release()
        elif (live := self._live) is not None:
            live.abort()  # who reads closes it

    def close(self) -> None:
        """Close the connection for good."""
        self.over = True
        self.leave()


class Told:
    """The answer's text for readers to whom nothing that they were given can be taken back."""

    def __init__(self) -> None:
        self._told: list[str] = []
        self._again: str | None = None  # what was told by a void attempt and has not come again

    def text(self, event: RunEvent) -> str:
        """Give what of an event's text was never told."""
        if event["event"] == "run.restarted":
            self._again = "".join(self._told)
            self._told = [self._again]
        if event["event"] == "run.completed" and self._again:
            raise StreamRestartedError(f"run {event['data']['runId']} began anew, and its answer lacks text that was given before")
        if event["event"] != "message.delta":
            return ""
        fresh = event["data"]["text"]
        if self._again:
            again, fresh = fresh[: len(self._again)], fresh[len(self._again) :]
            if not self._again.startswith(again):
                raise StreamRestartedError(f"run {event['data']['runId']} began anew, with another answer than was given before")
            self._again = self._again[len(again) :]
        self._told.append(fresh)
        return fresh


def _number(event_id: str) -> tuple[int, int]:
    attempt, _, number = event_id.partition(".")
    return int(attempt), int(number)
