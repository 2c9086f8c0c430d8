"""The exceptions of the package."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import cast

from .types import CompletedRun, FieldError, Problem, Run

__all__ = [
    "APIError",
    "AuthenticationError",
    "BadRequestError",
    "ConflictError",
    "APIConnectionError",
    "NotFoundError",
    "ParleyError",
    "PermissionDeniedError",
    "RateLimitError",
    "RunFailedError",
    "ServerError",
    "StreamRestartedError",
    "APITimeoutError",
    "WaitEndedError",
    "raise_for_status",
]


class ParleyError(Exception):
    """The base class of all exceptions in this package."""


class APIConnectionError(ParleyError, ConnectionError):
    """The service could not be reached, or the connection was lost before the response was
    complete.
    """

    sent: bool = True
    """Whether the service may have received the request."""


class APITimeoutError(APIConnectionError, TimeoutError):
    """Connecting to the service, sending the request, or waiting for more of the response took
    longer than `timeout`.
    """


class APIError(ParleyError):
    """The service rejected the request, or failed to execute it.

    Its `str()` is for people. Programs use `code`, which is stable, and `errors`.
    """

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        problem = _problem(body)
        self.status: int = status
        """The HTTP status."""
        self.code: str | None = problem["code"] if problem else None
        """The stable code, for example `rate_limited`; None if another server responded."""
        self.detail: str = problem["detail"] if problem else f"the response is not from Parley; check base_url: {_excerpt(body)}"
        """The description of the error, for people."""
        self.request_id: str | None = problem["requestId"] if problem else headers.get("x-request-id")
        """Identifies the request in the service's log."""
        self.errors: list[FieldError] = problem["errors"] if problem else []
        """All invalid fields."""
        self.retryable: bool = problem["retryable"] if problem else status in (408, 429, 502, 503, 504)
        """Whether the same request may succeed later."""
        self.retry_after: float | None = _seconds(headers.get("retry-after"))
        """Seconds before a retry makes sense, if the service sent a time."""
        super().__init__(status, dict(headers), body)

    def __str__(self) -> str:
        request = f" (request {self.request_id})" if self.request_id else ""
        code = f" {self.code}" if self.code else ""
        return f"{self.status}{code}: {self.detail}{request}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class BadRequestError(APIError):
    """400, 405, 413, 415: the body, query or headers are invalid. `errors` lists the fields."""


class AuthenticationError(APIError):
    """401: the API key is missing or invalid."""


class PermissionDeniedError(APIError):
    """403: the caller may not do this."""


class NotFoundError(APIError):
    """404 or 410: the object does not exist for this caller, or was erased."""


class ConflictError(APIError):
    """409, 412 or 422: the object was changed in the meantime, or the idempotency key belongs to
    another request.
    """


class RateLimitError(APIError):
    """429: too many requests, or the budget is used up. `retry_after` is the time before a retry.
    """


class ServerError(APIError):
    """5xx: the service or a proxy failed."""


class StreamRestartedError(ParleyError):
    """The run was restarted, and its answer differs from the text that `text()` has already
    returned.

    The run continues. The stream's `final_run()` returns the new answer.
    """


class WaitEndedError(ParleyError, TimeoutError):
    """The caller's `timeout` expired before the run finished or the document was processed.

    The run or document continues. `client.runs.wait(error.run_id)` waits again.
    """

    def __init__(self, message: str, *, run_id: str | None = None, document_id: str | None = None) -> None:
        self.run_id: str | None = run_id
        """The id of the awaited run; None if a document was awaited."""
        self.document_id: str | None = document_id
        """The id of the awaited document; None if a run was awaited."""
        super().__init__(message)


class RunFailedError(ParleyError):
    """Raised by `raise_for_status` for a run that did not complete."""

    def __init__(self, run: Run) -> None:
        self.run: Run = run
        """The run."""
        error = run["error"]
        super().__init__(f"run {run['id']} {run['status']}" + (f": {error['code']}: {error['message']}" if error else ""))

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.run,))


def raise_for_status(run: Run) -> CompletedRun:
    """Return a completed run, whose `message` is a text.

    Raise `RunFailedError` if the run failed, was cancelled, timed out or requires an action.
    """
    if run["status"] != "completed":
        raise RunFailedError(run)
    return cast(CompletedRun, run)


_BY_STATUS: dict[int, type[APIError]] = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    410: NotFoundError,
    412: ConflictError,
    422: ConflictError,
    429: RateLimitError,
}


def api_error(status: int, headers: Mapping[str, str], body: bytes) -> APIError:
    """Return the exception for an unsuccessful response. Header names are in lower case."""
    others = ServerError if status >= 500 else BadRequestError if status >= 400 else APIError
    return _BY_STATUS.get(status, others)(status, headers, body)


def _problem(body: bytes) -> Problem | None:
    """Parse a problem document from the service.

    Return None for any other body, for example a proxy's error page.
    """
    try:
        value = json.loads(body)
    except ValueError:
        return None
    fields = {"code": str, "detail": str, "requestId": str, "retryable": bool, "errors": list}
    if isinstance(value, dict) and all(isinstance(value.get(name), kind) for name, kind in fields.items()):
        return cast(Problem, value)
    return None


def _excerpt(body: bytes) -> str:
    text = body[:400].decode("utf-8", "replace")
    return " ".join(text.split())[:200] or "an empty response"


def _seconds(header: str | None) -> float | None:
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return None
