"""Worker threads for asyncio, and the pages and streams that they read."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from ._errors import ParleyError
from ._events import Source, Told
from ._reading import Page, Stream
from ._transport import CURRENT, Call
from .types import Run, RunEvent

_T = TypeVar("_T")


class Workers:
    """A pool of worker threads. It has at most one thread per simultaneous call and reuses idle
    threads.
    """

    def __init__(self, most: int) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="parley")
        self._lock = threading.Lock()
        self._calls: set[Call] = set()

    async def run(self, work: Callable[[], _T]) -> _T:
        call = Call()
        try:
            future: Future[_T] = self._pool.submit(lambda: self._carry_out(call, work))
        except RuntimeError:
            raise ParleyError("the client is closed") from None
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            call.cancel()
            raise

    def _carry_out(self, call: Call, work: Callable[[], _T]) -> _T:
        with self._lock:
            self._calls.add(call)
        token = CURRENT.set(call)
        try:
            return work()
        finally:
            CURRENT.reset(token)
            with self._lock:
                self._calls.discard(call)

    def close(self) -> None:
        """Cancel all calls, and reject new ones."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            calls = list(self._calls)
        for call in calls:
            call.cancel()


class AsyncPage(Generic[_T]):
    """A page of a list. Iterating it yields the entries of this page and of all following pages."""

    def __init__(self, workers: Workers, page: Page[_T]) -> None:
        self.data: list[_T] = page.data
        """The entries of this page."""
        self.has_more: bool = page.has_more
        """Whether there is a next page."""
        self.next_cursor: str | None = page.next_cursor
        """The cursor of the next page, for the parameter `cursor`; None on the last page."""
        self._workers = workers
        self._page = page

    async def next_page(self) -> AsyncPage[_T] | None:
        """Read the next page; None after the last one."""
        page = await self._workers.run(self._page.next_page)
        return None if page is None else AsyncPage(self._workers, page)

    async def __aiter__(self) -> AsyncIterator[_T]:
        page: AsyncPage[_T] | None = self
        while page is not None:
            for entry in page.data:
                yield entry
            page = await page.next_page()


class AsyncPages(Generic[_T]):
    """A requested list. `await` returns the first page, and `async for` yields the entries of all
    pages.
    """

    def __init__(self, workers: Workers, first: Callable[[], Page[_T]]) -> None:
        self._workers = workers
        self._first = first

    def __await__(self) -> Generator[Any, None, AsyncPage[_T]]:
        return self._page().__await__()

    async def _page(self) -> AsyncPage[_T]:
        return AsyncPage(self._workers, await self._workers.run(self._first))

    async def __aiter__(self) -> AsyncIterator[_T]:
        async for entry in await self:
            yield entry


class _Reading:
    """An iteration over a stream.

    Ending the iteration closes the connection, even without an explicit close.
    """

    def __init__(self, workers: Workers, source: Source) -> None:
        self._workers = workers
        self._source = source

    def __aiter__(self) -> _Reading:
        return self

    async def __anext__(self) -> RunEvent:
        source = self._source
        if not source.ready:
            await self._workers.run(source.fill)
        if not source.ready:
            raise StopAsyncIteration
        return source.take()

    def __del__(self) -> None:
        self._source.leave()


class AsyncStream:
    """The events of a run as they happen. A broken stream resumes after the last event.

    Iterate over it, or over `text()`. Leaving the loop, also by cancelling its task, closes the
    connection, and another loop continues after the last event. An `async with` statement closes
    the stream permanently at its end.
    """

    def __init__(self, workers: Workers, stream: Stream) -> None:
        self._workers = workers
        self._stream = stream

    @property
    def run_id(self) -> str | None:
        """The run's id; None before the first event."""
        return self._stream.run_id

    @property
    def last_event_id(self) -> str | None:
        """The id of the last event that was returned.

        `client.runs.stream(run_id, last_event_id=…)` continues after it, in any process.
        """
        return self._stream.last_event_id

    def __aiter__(self) -> AsyncIterator[RunEvent]:
        return _Reading(self._workers, self._stream._source)

    async def text(self) -> AsyncIterator[str]:
        """Yield the answer in pieces.

        If the run restarts, text that was already returned is not repeated. If the new answer
        differs, `StreamRestartedError` is raised.
        """
        told = Told()
        async for event in self:
            if text := told.text(event):
                yield text

    async def final_run(self) -> Run:
        """Read the rest of the stream, and return the run."""
        async for _ in self:
            pass
        return await self._workers.run(self._stream.final_run)  # nothing is left to read

    async def close(self) -> None:
        """Close the stream permanently. The run continues."""
        self._stream.close()

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
