"""The client."""

from __future__ import annotations

import os
import ssl
from importlib.metadata import PackageNotFoundError, version

from ._agents import Agents, Chat, Templates
from ._errors import ParleyError
from ._knowledge import Knowledge
from ._resources import Budgets, Files, Hooks, Keys, Notifications, Sessions, Sources, UsageReports
from ._runs import Automations, Runs
from ._transport import Transport


class Parley:
    """A client of Parley. Threads may share it. It keeps connections open, so create it once and
    reuse it.

    `api_key`, `base_url` and `organization_id` default to `PARLEY_API_KEY`, `PARLEY_BASE_URL` and
    `PARLEY_ORGANIZATION_ID`. `api_key` may also be the token of a login session. `demo=True` needs
    no key: it lists templates and chats with them. `timeout` is the maximum number of seconds to
    connect, to send, or to wait for the next bytes of a response. `max_retries` is how many times a
    request is sent again, where a retry is useful and safe.
    """

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        organization_id: str | None = None,
        demo: bool = False,
        timeout: float = 75.0,
        max_retries: int = 2,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self.base_url: str = base_url or os.environ.get("PARLEY_BASE_URL") or "http://127.0.0.1:8080"
        """The URL of the service."""
        headers = _identity(api_key, organization_id, demo)
        self._visitor = demo or headers.get("Authorization", "").startswith("Bearer wt_")  # visitors may not read runs
        self._transport = Transport(self.base_url, headers, timeout, max_retries, ssl_context)
        self.agents = Agents(self)
        self.templates = Templates(self)
        self.chat = Chat(self)
        self.automations = Automations(self)
        self.runs = Runs(self)
        self.sessions = Sessions(self)
        self.knowledge = Knowledge(self)
        self.files = Files(self)
        self.sources = Sources(self)
        self.hooks = Hooks(self)
        self.notifications = Notifications(self)
        self.keys = Keys(self)
        self.usage = UsageReports(self)
        self.budgets = Budgets(self)

    def close(self) -> None:
        """Close the idle connections. Calls in progress in other threads finish normally."""
        self._transport.close()

    def __enter__(self) -> Parley:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={self.base_url!r})"


def _identity(api_key: str | None, organization_id: str | None, demo: bool) -> dict[str, str]:
    """Return the headers of every request."""
    headers = {"Accept": "application/json", "User-Agent": f"parley-sdk-python/{VERSION}"}
    if demo:
        if api_key:
            raise ParleyError("api_key is not allowed with demo")
        return {**headers, "x-tenant-id": "tenant_demo"}
    if api_key is not None and not api_key.strip():  # an empty argument must not be replaced with the key from the environment
        raise ParleyError("api_key is blank")
    key = (api_key or os.environ.get("PARLEY_API_KEY") or "").strip()
    organization = (organization_id or os.environ.get("PARLEY_ORGANIZATION_ID") or "").strip()
    if not key:
        raise ParleyError("no API key; pass api_key or set PARLEY_API_KEY, or use Parley(demo=True) to chat with templates")
    if not all("!" <= letter <= "~" for letter in key + organization):
        raise ParleyError("api_key or organization_id contains invalid characters")
    if organization:
        headers["x-organization-id"] = organization
    if key.startswith("ak_"):
        return {**headers, "x-api-key": key}
    return {**headers, "Authorization": f"Bearer {key}"}


def _version() -> str:
    try:
        return version("parley-sdk")
    except PackageNotFoundError:  # the package runs from a checkout
        return "0"


VERSION = _version()
