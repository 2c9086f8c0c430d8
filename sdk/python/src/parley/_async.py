"""The client for asyncio.

Worker threads execute the calls, and cancelling a call closes its connection.
"""

from __future__ import annotations

import functools
import ssl
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from ._agents import Agents, Chat, Templates
from ._async_reading import AsyncPages, AsyncStream, Workers
from ._client import Parley
from ._reading import Page
from ._group import Group
from ._knowledge import Knowledge
from ._resources import Budgets, Files, Hooks, Keys, Notifications, Sessions, Sources, UsageReports
from ._runs import Automations, Runs
from ._transport import Call
from .types import ClientTool, ModelSettings, NewAttachment, OutputOptions, Run

_T = TypeVar("_T")
_G = TypeVar("_G", bound=Group)
_P = ParamSpec("_P")


class _Call(Generic[_G, _P, _T]):
    """A coroutine that calls one method of a group."""

    def __init__(self, method: Callable[Concatenate[_G, _P], _T]) -> None:
        self._method = method

    def __get__(self, group: AsyncGroup[_G] | None, owner: type) -> Callable[_P, Coroutine[Any, Any, _T]]:
        async def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            assert group is not None, "call it on a client"
            sync, workers = group._group, group._workers
            return await workers.run(lambda: self._method(sync, *args, **kwargs))

        return functools.update_wrapper(call, self._method)


class _List(Generic[_G, _P, _T]):
    """A method of a group that returns a page. Its result can be awaited or iterated over."""

    def __init__(self, method: Callable[Concatenate[_G, _P], Page[_T]]) -> None:
        self._method = method

    def __get__(self, group: AsyncGroup[_G] | None, owner: type) -> Callable[_P, AsyncPages[_T]]:
        def call(*args: _P.args, **kwargs: _P.kwargs) -> AsyncPages[_T]:
            assert group is not None, "call it on a client"
            sync, workers = group._group, group._workers
            return AsyncPages(workers, lambda: self._method(sync, *args, **kwargs))

        return functools.update_wrapper(call, self._method)


class AsyncGroup(Generic[_G]):
    """The base class of the groups of calls."""

    def __init__(self, workers: Workers, group: _G) -> None:
        self._workers = workers
        self._group = group


class AsyncAgents(AsyncGroup[Agents]):
    """Agents of the organization: a prompt, a model, tools, and the allowed callers."""

    create = _Call(Agents.create)
    get = _Call(Agents.get)
    list = _List(Agents.list)
    update = _Call(Agents.update)
    delete = _Call(Agents.delete)
    import_endpoints = _Call(Agents.import_endpoints)
    check = _Call(Agents.check)
    preview = _Call(Agents.preview)


class AsyncTemplates(AsyncGroup[Templates]):
    """The templates, with which everyone may chat."""

    get = _Call(Templates.get)
    list = _List(Templates.list)


class AsyncChat(AsyncGroup[Chat]):
    """Messages to agents and templates. Call it for a run, or `stream` for the run's events."""

    parse = _Call(Chat.parse)

    async def __call__(
        self,
        *,
        message: str = "",
        agent_id: str | None = None,
        template_id: str | None = None,
        session_id: str | None = None,
        output: OutputOptions | None = None,
        settings: ModelSettings | None = None,
        tools: Sequence[ClientTool] | None = None,
        attachments: Sequence[NewAttachment] | None = None,
        idempotency_key: str | None = None,
        wait: bool = True,
        timeout: float | None = None,
    ) -> Run:
        """Send a message and return its run, once it has finished or requires an action.

        The arguments are those of `Chat`.
        """
        return await self._workers.run(
            lambda: self._group(
                message=message,
                agent_id=agent_id,
                template_id=template_id,
                session_id=session_id,
                settings=settings,
                output=output,
                tools=tools,
                attachments=attachments,
                idempotency_key=idempotency_key,
                wait=wait,
                timeout=timeout,
            )
        )

    def stream(
        self,
        *,
        message: str = "",
        agent_id: str | None = None,
        template_id: str | None = None,
        session_id: str | None = None,
        output: OutputOptions | None = None,
        settings: ModelSettings | None = None,
        tools: Sequence[ClientTool] | None = None,
        attachments: Sequence[NewAttachment] | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncStream:
        """Return the events of a message's run.

        The message is sent when the stream is first read.
        """
        stream = self._group.stream(
            message=message,
            agent_id=agent_id,
            template_id=template_id,
            session_id=session_id,
            output=output,
            settings=settings,
            tools=tools,
            attachments=attachments,
            idempotency_key=idempotency_key,
        )
        return AsyncStream(self._workers, stream)


class AsyncAutomations(AsyncGroup[Automations]):
    """Runs of agents by schedulers, webhooks and services."""

    run = _Call(Automations.run)
    parse = _Call(Automations.parse)
    get = _Call(Automations.get)
    list = _List(Automations.list)


class AsyncRuns(AsyncGroup[Runs]):
    """The runs of messages and triggers."""

    get = _Call(Runs.get)
    list = _List(Runs.list)
    wait = _Call(Runs.wait)
    timeline = _Call(Runs.timeline)
    cancel = _Call(Runs.cancel)
    act = _Call(Runs.act)
    submit_tool_results = _Call(Runs.submit_tool_results)

    def stream(self, run_id: str, *, last_event_id: str | None = None) -> AsyncStream:
        """Return the events of a run, from the first one or after `last_event_id`."""
        return AsyncStream(self._workers, self._group.stream(run_id, last_event_id=last_event_id))


class AsyncKnowledge(AsyncGroup[Knowledge]):
    """Documents that agents search and cite."""

    upload = _Call(Knowledge.upload)
    get = _Call(Knowledge.get)
    wait = _Call(Knowledge.wait)
    list = _List(Knowledge.list)
    search = _Call(Knowledge.search)
    download = _Call(Knowledge.download)
    page = _Call(Knowledge.page)
    passages = _Call(Knowledge.passages)
    update = _Call(Knowledge.update)
    retry = _Call(Knowledge.retry)
    delete = _Call(Knowledge.delete)


class AsyncSessions(AsyncGroup[Sessions]):
    """Chats with their messages."""

    get = _Call(Sessions.get)
    list = _List(Sessions.list)
    delete = _Call(Sessions.delete)


class AsyncFiles(AsyncGroup[Files]):
    """The files that runs created."""

    upload = _Call(Files.upload)
    download = _Call(Files.download)


class AsyncSources(AsyncGroup[Sources]):
    """The texts that answers cite."""

    get = _Call(Sources.get)


class AsyncHooks(AsyncGroup[Hooks]):
    """The webhooks that start runs, and their deliveries. Only admins may use them."""

    create = _Call(Hooks.create)
    get = _Call(Hooks.get)
    list = _List(Hooks.list)
    update = _Call(Hooks.update)
    rotate_secret = _Call(Hooks.rotate_secret)
    test = _Call(Hooks.test)
    delete = _Call(Hooks.delete)
    list_deliveries = _List(Hooks.list_deliveries)
    get_delivery = _Call(Hooks.get_delivery)
    redeliver = _Call(Hooks.redeliver)


class AsyncNotifications(AsyncGroup[Notifications]):
    """The endpoints that receive the organization's events, and their messages. Only admins may use
    them.
    """

    create = _Call(Notifications.create)
    get = _Call(Notifications.get)
    list = _List(Notifications.list)
    update = _Call(Notifications.update)
    rotate_secret = _Call(Notifications.rotate_secret)
    test = _Call(Notifications.test)
    delete = _Call(Notifications.delete)
    list_messages = _List(Notifications.list_messages)
    get_message = _Call(Notifications.get_message)
    resend = _Call(Notifications.resend)


class AsyncKeys(AsyncGroup[Keys]):
    """API keys."""

    create = _Call(Keys.create)
    get = _Call(Keys.get)
    list = _List(Keys.list)
    rotate = _Call(Keys.rotate)
    delete = _Call(Keys.delete)


class AsyncUsageReports(AsyncGroup[UsageReports]):
    """Counts, costs and limits."""

    get = _Call(UsageReports.get)
    limits = _Call(UsageReports.limits)


class AsyncBudgets(AsyncGroup[Budgets]):
    """Hard caps of tokens and costs. Only admins may use them."""

    create = _Call(Budgets.create)
    get = _Call(Budgets.get)
    list = _List(Budgets.list)
    update = _Call(Budgets.update)
    delete = _Call(Budgets.delete)


class AsyncParley:
    """A client of Parley for asyncio, with the same calls and arguments as `Parley`.

    At most `max_workers` calls and streams run simultaneously. Further ones are queued.
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
        max_workers: int = 1000,
    ) -> None:
        self._client = client = Parley(
            api_key=api_key,
            base_url=base_url,
            organization_id=organization_id,
            demo=demo,
            timeout=timeout,
            max_retries=max_retries,
            ssl_context=ssl_context,
        )
        self._workers = workers = Workers(max_workers)
        self.base_url: str = client.base_url
        """The URL of the service."""
        self.agents = AsyncAgents(workers, client.agents)
        self.templates = AsyncTemplates(workers, client.templates)
        self.chat = AsyncChat(workers, client.chat)
        self.automations = AsyncAutomations(workers, client.automations)
        self.runs = AsyncRuns(workers, client.runs)
        self.sessions = AsyncSessions(workers, client.sessions)
        self.knowledge = AsyncKnowledge(workers, client.knowledge)
        self.files = AsyncFiles(workers, client.files)
        self.sources = AsyncSources(workers, client.sources)
        self.hooks = AsyncHooks(workers, client.hooks)
        self.notifications = AsyncNotifications(workers, client.notifications)
        self.keys = AsyncKeys(workers, client.keys)
        self.usage = AsyncUsageReports(workers, client.usage)
        self.budgets = AsyncBudgets(workers, client.budgets)

    async def close(self) -> None:
        """Close all connections. Calls in progress fail."""
        self._workers.close()
        self._client.close()

    async def __aenter__(self) -> AsyncParley:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={self.base_url!r})"
