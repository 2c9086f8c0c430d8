"""Results that are read in parts: lists page by page, and the events of runs one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from ._errors import ParleyError
from ._events import Source, Told
from .types import Run, RunEvent

_T = TypeVar("_T")


class Page(Generic[_T]):
    """A page of a list. Iterating it yields the entries of this page and of all following pages."""

    def __init__(self, body: Mapping[str, Any], follow: Callable[[str], Page[_T]]) -> None:
        self.data: list[_T] = body["data"]
        """The entries of this page."""
        self.has_more: bool = body["hasMore"]
        """Whether there is a next page."""
        self.next_cursor: str | None = body["nextCursor"]
        """The cursor of the next page, for the parameter `cursor`; None on the last page."""
        self._follow = follow

    def next_page(self) -> Page[_T] | None:
        """Read the next page; None after the last one."""
        return self._follow(self.next_cursor) if self.next_cursor else None

    def __iter__(self) -> Iterator[_T]:
        page: Page[_T] | None = self
        while page is not None:
            yield from page.data
            page = page.next_page()


class Stream:
    """The events of a run as they happen. A broken stream resumes after the last event.

    Iterate over it, or over `text()`. Leaving the loop closes the connection, and another loop
    continues after the last event. A `with` statement closes the stream permanently at its end.
    """

    def __init__(self, source: Source, read: Callable[[str], Run]) -> None:
        self._source = source
        self._read = read

    @property
    def run_id(self) -> str | None:
        """The run's id; None before the first event."""
        return self._source.run_id

    @property
    def last_event_id(self) -> str | None:
        """The id of the last event that was returned.

        `client.runs.stream(run_id, last_event_id=…)` continues after it, in any process.
        """
        return self._source.given

    def __iter__(self) -> Iterator[RunEvent]:
        source = self._source
        try:
            while True:
                if not source.ready:
                    source.fill()
                if not source.ready:
                    return
                yield source.take()
        finally:
            source.leave()

    def text(self) -> Iterator[str]:
        """Yield the answer in pieces.

        If the run restarts, text that was already returned is not repeated. If the new answer
        differs, `StreamRestartedError` is raised.
        """
        told = Told()
        for event in self:
            if text := told.text(event):
                yield text

    def final_run(self) -> Run:
        """Read the rest of the stream, and return the run."""
        for _ in self:
            pass
        if self._source.run is not None:
            return self._source.run
        if self._source.run_id is None:
            raise ParleyError("the stream was closed before its first event")
        return self._read(self._source.run_id)

    def close(self) -> None:
        """Close the stream permanently. The run continues."""
        self._source.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
