"""What is read of the service piece by piece: lists by their pages, and runs by their events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from ._errors import ParleyError
from ._events import Source, Told
from .types import Run, RunEvent

_T = TypeVar("_T")


class Page(Generic[_T]):
    """A page of a list. Iterating over it goes on with the pages behind it."""

    def __init__(self, body: Mapping[str, Any], follow: Callable[[str], Page[_T]]) -> None:
        self.data: list[_T] = body["data"]
        """The entries of this page."""
        self.has_more: bool = body["hasMore"]
        """Whether there is a next page."""
        self.next_cursor: str | None = body["nextCursor"]
        """What to give as `cursor` for the next page; None on the last one."""
        self._follow = follow

    def next_page(self) -> Page[_T] | None:
        """Give the page behind this one; None on the last one."""
        return self._follow(self.next_cursor) if self.next_cursor else None

    def __iter__(self) -> Iterator[_T]:
        page: Page[_T] | None = self
        while page is not None:
            yield from page.data
            page = page.next_page()


class Stream:
    """The events of a run as they happen, and again from where they were when the connection breaks.

    Iterate over it, or over `text()`. Leaving the loop closes the connection; another loop goes on behind the last
    event. In a `with` statement it is closed for good at the end.
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
        """The id of the last event that was given: `client.runs.stream(run_id, last_event_id=…)` goes on behind it, in any process."""
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
        """Give the answer piece by piece.

        A run that begins anew tells its answer again: what was given comes once. Should the new answer differ from
        it, `StreamRestartedError` is raised.
        """
        told = Told()
        for event in self:
            if text := told.text(event):
                yield text

    def final_run(self) -> Run:
        """Read to the end, passing over the events that are left, and give the run."""
        for _ in self:
            pass
        if self._source.run is not None:
            return self._source.run
        if self._source.run_id is None:
            raise ParleyError("the stream was closed before it had begun")
        return self._read(self._source.run_id)

    def close(self) -> None:
        """Close the connection for good. The run goes on."""
        self._source.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
