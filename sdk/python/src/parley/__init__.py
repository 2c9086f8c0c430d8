"""Client for Parley, the self-hostable service for AI agents.

`Parley` is the client, and `AsyncParley` the client for asyncio. `parley.types` contains the types
of the results.
"""

from . import types
from ._async import AsyncParley
from ._async_reading import AsyncPage, AsyncPages, AsyncStream
from ._client import VERSION as __version__
from ._client import Parley
from ._reading import Page, Stream
from ._runs import RunDecision
from ._errors import (
    APIError,
    AuthenticationError,
    BadRequestError,
    ConflictError,
    APIConnectionError,
    NotFoundError,
    ParleyError,
    PermissionDeniedError,
    RateLimitError,
    RunFailedError,
    ServerError,
    StreamRestartedError,
    APITimeoutError,
    WaitEndedError,
    raise_for_status,
)

__all__ = [
    "APIError",
    "AsyncPage",
    "AsyncPages",
    "AsyncParley",
    "AsyncStream",
    "AuthenticationError",
    "BadRequestError",
    "ConflictError",
    "APIConnectionError",
    "NotFoundError",
    "Page",
    "Parley",
    "ParleyError",
    "PermissionDeniedError",
    "RateLimitError",
    "RunDecision",
    "RunFailedError",
    "ServerError",
    "Stream",
    "StreamRestartedError",
    "APITimeoutError",
    "WaitEndedError",
    "__version__",
    "raise_for_status",
    "types",
]
