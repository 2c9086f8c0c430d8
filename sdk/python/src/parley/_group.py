"""The base class of the groups of calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ._reading import Page
from ._transport import Request
from .types import AgentList

if TYPE_CHECKING:
    from ._client import Parley

_T = TypeVar("_T")


class Group:
    """The base class of the groups of calls."""

    def __init__(self, client: Parley) -> None:
        self._client = client
        self._http = client._transport

    def _page(self, kind: type[_T], path: str, query: Mapping[str, Any]) -> Page[_T]:
        body = self._http.call(AgentList, Request("GET", path, query))  # AgentList stands for every list: the entries may have any type
        return Page(body, lambda cursor: self._page(kind, path, {**query, "cursor": cursor}))

    def _about(self, kind: type[_T], method: str, path: str, about: str, query: Mapping[str, Any] | None = None) -> _T:
        """Send a request for the object with the given id, without a body."""
        return self._http.call(kind, Request(method, path, {**(query or {}), "id": require_id(about)}, repeatable=method != "POST"))


def require_id(value: str) -> str:
    """Reject a missing id. Without the id, the request would concern all objects instead of one."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"id must be a non-empty string, not {value!r}")
    return value
