"""What can go wrong, as exceptions."""

from __future__ import annotations

import builtins
import json
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import cast

from .types import FieldError, Problem, Run

__all__ = [
    "APIError",
    "AuthenticationError",
    "BadRequestError",
    "ConflictError",
    "ConnectionError",
    "NotFoundError",
    "ParleyError",
    "PermissionDeniedError",
    "RateLimitError",
    "RunFailedError",
    "ServerError",
    "StreamRestartedError",
    "TimeoutError",
    "WaitEndedError",
    "raise_for_status",
]


class ParleyError(Exception):
    """The base of all exceptions of this package."""


class ConnectionError(ParleyError, builtins.ConnectionError):
    """The service could not be reached, or the connection broke before the answer was complete."""

    sent: bool = True
    """Whether the service may have got the request."""


class TimeoutError(ConnectionError, builtins.TimeoutError):
    """The service took longer than `timeout` to connect, to take the request or to go on with its answer."""


class APIError(ParleyError):
    """The service refused the request or failed at it.

    `str()` of it is made for people; programs look at `code`, which is stable, and at `errors`.
    """

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        problem = _problem(body)
        self.status: int = status
        """The HTTP status."""
        self.code: str | None = problem["code"] if problem else None
        """The stable code, such as `rate_limited`; None when something else than the service answered."""
        self.detail: str = problem["detail"] if problem else f"the answer is none of Parley's: {_excerpt(body)}"
        """What is wrong, for people."""
        self.request_id: str | None = problem["requestId"] if problem else headers.get("x-request-id")
        """Finds the request in the service's log."""
        self.errors: list[FieldError] = problem["errors"] if problem else []
        """Each field at fault, all of them at once."""
        self.retryable: bool = problem["retryable"] if problem else status in (408, 429, 502, 503, 504)
        """Whether the same request may succeed later."""
        self.retry_after: float | None = _seconds(headers.get("retry-after"))
        """Seconds after which the service asks to be tried again, when it says so."""
        super().__init__(status, dict(headers), body)

    def __str__(self) -> str:
        request = f" (request {self.request_id})" if self.request_id else ""
        code = f" {self.code}" if self.code else ""
        return f"{self.status}{code}: {self.detail}{request}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class BadRequestError(APIError):
    """400, 405, 413, 415: body, query or headers are not as they must be; `errors` names the fields."""


class AuthenticationError(APIError):
    """401: no API key, or one that is not valid."""


class PermissionDeniedError(APIError):
    """403: the caller may not do this."""


class NotFoundError(APIError):
    """404 or 410: there is nothing by this id for this caller, or it was erased."""


class ConflictError(APIError):
    """409, 412 or 422: it was changed meanwhile, or the idempotency key belongs to another request."""


class RateLimitError(APIError):
    """429: too many requests, or the budget is used up; `retry_after` says when to come back."""


class ServerError(APIError):
    """5xx: the service, or something in front of it, failed."""


class StreamRestartedError(ParleyError):
    """The run began anew and now answers otherwise than the text that `text()` has already given.

    The run goes on; `final_run()` of the stream gives its answer.
    """


class WaitEndedError(ParleyError, builtins.TimeoutError):
    """The caller's `timeout` was over before the run, or the reading of a document, had come to its end: it goes on.

    The service is well and has answered; `client.runs.wait(error.run_id)` goes on waiting.
    """

    def __init__(self, message: str, *, run_id: str | None = None, document_id: str | None = None) -> None:
        self.run_id: str | None = run_id
        """The run that was waited for; None when it was a document."""
        self.document_id: str | None = document_id
        """The document that was waited for; None when it was a run."""
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


def raise_for_status(run: Run) -> Run:
    """Give the run back when it completed; raise `RunFailedError` when it failed, was cancelled, timed out, or waits."""
    if run["status"] != "completed":
        raise RunFailedError(run)
    return run


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
    """Give the exception for an answer that is none of success; the names of headers are in lower case."""
    others = ServerError if status >= 500 else BadRequestError if status >= 400 else APIError
    return _BY_STATUS.get(status, others)(status, headers, body)


def _problem(body: bytes) -> Problem | None:
    """Read a problem of the service's; None for whatever else, such as the error page of a proxy."""
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
    return " ".join(text.split())[:200] or "an empty answer"


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
