"""The client, with a class for each group of calls."""

from __future__ import annotations

import math
import os
import ssl
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import IO, Any, Literal, cast

from ._errors import ParleyError, WaitEndedError
from ._events import Source
from ._group import Group, require_id
from ._output import json_schema, parsed
from ._reading import Page, Stream
from ._requests import form_request, json_request, read_file
from ._resources import Budgets, Files, Hooks, Keys, Notifications, Sessions, Sources, UsageReports
from ._transport import Request, Transport
from .types import (
    Agent,
    AgentCheck,
    Automation,
    Deleted,
    Document,
    DocumentPage,
    DocumentPassages,
    FoundList,
    ImportedEndpoints,
    NewAttachment,
    OpenApiImport,
    OutputOptions,
    Run,
    RunSummary,
    RunStatus,
    Template,
    Timeline,
    ToolsChange,
    WidgetChange,
)

RunDecision = Literal["approve", "deny", "happened", "resend", "abandon"]
"""The decisions that a person can make about a run that is `requires_action`."""

_ENDED = ("completed", "failed", "cancelled", "timed_out")
_LONGEST_WAIT = 55  # maximum seconds that the service waits for a run per request


class Agents(Group):
    """Agents of the organization: a prompt, a model, tools, and the allowed callers."""

    def create(
        self,
        *,
        name: str | None = None,
        system_prompt: str | None = None,
        template_id: str | None = None,
        description: str | None = None,
        model: str | None = None,
        fallback_models: Sequence[str] | None = None,
        tools: ToolsChange | None = None,
        allowed_callers: Sequence[Literal["user", "system"]] | None = None,
        widget: WidgetChange | None = None,
    ) -> Agent:
        """Create an agent from a name and a system prompt, or from a template and changes to it.

        Each call creates an agent. The request is not repeated if the service may have carried it
        out.
        """
        body = {**_agent(name, system_prompt, description, model, fallback_models, tools, allowed_callers, widget), "templateId": template_id}
        return self._http.call(Agent, json_request("POST", "/api/agents", {}, body, repeatable=False))

    def get(self, agent_id: str) -> Agent:
        """Read an agent."""
        return self._http.call(Agent, Request("GET", "/api/agents", {"id": require_id(agent_id)}))

    def list(self, *, q: str | None = None, limit: int | None = None, cursor: str | None = None) -> Page[Agent]:
        """List agents, newest first. `q` is a part of their names."""
        return self._page(Agent, "/api/agents", {"q": q, "limit": limit, "cursor": cursor})

    def update(
        self,
        agent_id: str,
        *,
        name: str | None = None,
        system_prompt: str | None = None,
        description: str | None = None,
        model: str | None = None,
        fallback_models: Sequence[str] | None = None,
        tools: ToolsChange | None = None,
        allowed_callers: Sequence[Literal["user", "system"]] | None = None,
        widget: WidgetChange | None = None,
        version: int | None = None,
    ) -> Agent:
        """Change an agent.

        Omitted fields keep their values. With `version`, a different version raises
        `ConflictError`.
        """
        body = {**_agent(name, system_prompt, description, model, fallback_models, tools, allowed_callers, widget), "version": version}
        return self._http.call(Agent, json_request("PUT", "/api/agents", {"id": require_id(agent_id)}, body, repeatable=version is None))

    def delete(self, agent_id: str) -> Deleted:
        """Delete an agent. Its queued runs are cancelled. Finished runs stay readable."""
        return self._http.call(Deleted, Request("DELETE", "/api/agents", {"id": require_id(agent_id)}))

    def import_endpoints(self, agent_id: str, source: OpenApiImport) -> ImportedEndpoints:
        """Add the operations of an OpenAPI 3 document to an agent's endpoints."""
        query, body = {"id": require_id(agent_id), "action": "import-openapi"}, cast(Mapping[str, Any], source)
        return self._http.call(ImportedEndpoints, json_request("POST", "/api/agents", query, body, repeatable=False))

    def check(self, agent_id: str) -> AgentCheck:
        """Try the connections of an agent: its models, MCP servers, search provider and endpoints.

        It takes at most 30 seconds.
        """
        query = {"id": require_id(agent_id), "action": "check"}
        return self._http.call(AgentCheck, Request("POST", "/api/agents", query, repeatable=False))


class Templates(Group):
    """The templates, with which everyone may chat."""

    def get(self, template_id: str) -> Template:
        """Read a template."""
        return self._about(Template, "GET", "/api/agents/templates", template_id)

    def list(self, *, limit: int | None = None, cursor: str | None = None) -> Page[Template]:
        """List templates."""
        return self._page(Template, "/api/agents/templates", {"limit": limit, "cursor": cursor})


class Chat(Group):
    """Messages to agents and templates. Call it for a run, or `stream` for the run's events."""

    def __call__(
        self,
        *,
        message: str,
        agent_id: str | None = None,
        template_id: str | None = None,
        session_id: str | None = None,
        output: OutputOptions | None = None,
        idempotency_key: str | None = None,
        attachments: Sequence[NewAttachment] | None = None,
        wait: bool = True,
        timeout: float | None = None,
    ) -> Run:
        """Send a message and return its run, once it has finished or requires an action.

        With `wait=False` it returns as soon as the run is accepted. Messages with the same
        `session_id` form a chat. By default each message has its own session. After `timeout`
        seconds it raises `WaitEndedError`, and the run continues. `output` is the form of the answer.
        """
        request = self._request(message, agent_id, template_id, session_id, idempotency_key, output, attachments, stream=False)
        return self._client.runs._submitted(request, wait, timeout)

    def parse(
        self,
        *,
        message: str,
        schema: Any,
        agent_id: str | None = None,
        template_id: str | None = None,
        session_id: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Send a message and return the answer as data that matches a schema.

        `schema` is a JSON Schema, or a Pydantic model or `TypeAdapter`, whose object is returned. If
        the run does not complete, `RunFailedError` is raised.
        """
        output: OutputOptions = {"schema": json_schema(schema)}
        request = self._request(message, agent_id, template_id, session_id, idempotency_key, output, None, stream=False)
        return parsed(self._client.runs._submitted(request, True, timeout), schema)

    def stream(
        self,
        *,
        message: str,
        agent_id: str | None = None,
        template_id: str | None = None,
        session_id: str | None = None,
        output: OutputOptions | None = None,
        idempotency_key: str | None = None,
        attachments: Sequence[NewAttachment] | None = None,
    ) -> Stream:
        """Return the events of a message's run.

        The message is sent when the stream is first read.
        """
        request = self._request(message, agent_id, template_id, session_id, idempotency_key, output, attachments, stream=True)
        return self._client.runs._events(request)

    def _request(
        self,
        message: str,
        agent_id: str | None,
        template_id: str | None,
        session_id: str | None,
        key: str | None,
        output: OutputOptions | None,
        attachments: Sequence[NewAttachment] | None,
        *,
        stream: bool,
    ) -> Request:
        if (agent_id is None) == (template_id is None):
            raise ValueError("pass exactly one of agent_id and template_id")
        key = str(uuid.uuid4()) if key is None else key
        if session_id is None:
            # Derived from the key, so that the same key always identifies the same message. A
            # session id has at most 128 characters.
            if len(key) > 124:
                raise ValueError("session_id is required with an idempotency_key of more than 124 characters")
            session_id = f"key-{key}"
        attached = None if attachments is None else [*attachments]
        body = {"sessionId": session_id, "message": message, "output": output, "stream": stream or None, "attachments": attached}
        query = {"action": "chat", "id": agent_id, "template": template_id}
        return json_request("POST", "/api/agents", query, body, {"Idempotency-Key": key})


class Automations(Group):
    """Runs of agents by schedulers, webhooks and services."""

    def run(
        self,
        *,
        target: str,
        message: str | None = None,
        data: Mapping[str, Any] | None = None,
        automation_id: str | None = None,
        trigger_type: str | None = None,
        ttl_override: int | None = None,
        session_id: str | None = None,
        output: OutputOptions | None = None,
        idempotency_key: str | None = None,
        wait: bool = True,
        timeout: float | None = None,
    ) -> Run:
        """Run an agent and return the run, once it has finished or requires an action.

        With `wait=False` it returns as soon as the run is accepted. `data` is the input for the agent.
        Its key `message`, or the argument `message`, is the text. Calls with the same
        `idempotency_key` and payload, from any process, return the same run. The default is a new
        key per call. After `timeout` seconds it raises `WaitEndedError`, and the run continues.
        `output` is the form of the answer.
        """
        given = dict(data or {})
        if message is not None and given.setdefault("message", message) != message:
            raise ValueError("message and data['message'] differ; pass only one of them")
        body = {"target": require_id(target), "input": given, "ttlOverride": ttl_override, "sessionId": session_id, "output": output}
        headers = {"Idempotency-Key": str(uuid.uuid4()) if idempotency_key is None else idempotency_key}
        for name, value in (("x-automation-id", automation_id), ("x-trigger-type", trigger_type)):
            if value is not None:
                headers[name] = value
        request = json_request("POST", "/api/internal/run-automation", {}, body, headers)
        return self._client.runs._submitted(request, wait, timeout)

    def parse(self, *, schema: Any, **trigger: Any) -> Any:
        """Run an agent and return the answer as data that matches a schema.

        `schema` is a JSON Schema, or a Pydantic model or `TypeAdapter`, whose object is returned. The
        other arguments are those of `run`. If the run does not complete, `RunFailedError` is raised.
        """
        return parsed(self.run(**trigger, output={"schema": json_schema(schema)}, wait=True), schema)

    def get(self, automation_id: str) -> Automation:
        """Read an automation with its newest run."""
        return self._about(Automation, "GET", "/api/automations", automation_id)

    def list(self, *, limit: int | None = None, cursor: str | None = None) -> Page[Automation]:
        """List automations by name."""
        return self._page(Automation, "/api/automations", {"limit": limit, "cursor": cursor})


class Runs(Group):
    """The runs of messages and triggers."""

    def get(self, run_id: str) -> Run:
        """Read a run's current state."""
        return self._http.call(Run, Request("GET", "/api/runs", {"id": require_id(run_id)}))

    def list(
        self,
        *,
        agent_id: str | None = None,
        session_id: str | None = None,
        automation_id: str | None = None,
        status: RunStatus | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[RunSummary]:
        """List runs in short form, newest first. `get` returns a complete run."""
        query = {"agentId": agent_id, "sessionId": session_id, "automationId": automation_id, "status": status, "limit": limit}
        return self._page(RunSummary, "/api/runs", {**query, "cursor": cursor})

    def wait(self, run_id: str, *, timeout: float | None = None) -> Run:
        """Wait until a run has finished or requires an action, and return it.

        After `timeout` seconds it raises `WaitEndedError`, and the run continues.
        """
        return self._awaited(require_id(run_id), self._deadline(timeout))

    def stream(self, run_id: str, *, last_event_id: str | None = None) -> Stream:
        """Return the events of a run, from the first one or after `last_event_id`."""
        request = Request("GET", "/api/runs", {"id": require_id(run_id), "stream": "1"})
        source = Source(self._http, request, lambda _: request, last_event_id)
        source.run_id = run_id
        return Stream(source, self.wait)

    def timeline(self, run_id: str) -> Timeline:
        """Read how a run spent its time: queue, attempts, model turns, tool calls and waits."""
        return self._about(Timeline, "GET", "/api/runs", run_id, {"timeline": "1"})

    def cancel(self, run_id: str) -> Run:
        """Cancel a run. A finished run is returned unchanged."""
        return self._http.call(Run, Request("POST", "/api/runs", {"id": require_id(run_id), "action": "cancel"}))

    def act(self, run_id: str, decision: RunDecision, *, tool_call_id: str) -> Run:
        """Decide the `requiredAction` of a run."""
        return self._http.call(Run, Request("POST", "/api/runs", {"id": require_id(run_id), "action": decision, "toolCallId": tool_call_id}))

    def _events(self, begin: Request) -> Stream:
        def resume(run_id: str) -> Request | None:
            if self._client._visitor:  # visitors may not read runs: repeating the message with its key returns the same stream
                return None
            return Request("GET", "/api/runs", {"id": run_id, "stream": "1"})

        return Stream(Source(self._http, begin, resume), self.wait)

    def _submitted(self, request: Request, wait: bool, timeout: float | None) -> Run:
        deadline = self._deadline(timeout)
        if not wait:
            return self._http.call(Run, replace(request, headers={**request.headers, "Prefer": "respond-async"}))
        while True:
            asked = self._http.clock()
            preference = {"Prefer": f"wait={self._patience(deadline)}"}
            run = self._http.call(Run, replace(request, headers={**request.headers, **preference}))
            if _settled(run):
                return run
            self._go_on(run["id"], asked, deadline)
            if not self._client._visitor:  # visitors may not read runs: they wait by repeating the message with its key
                return self._awaited(run["id"], deadline)

    def _awaited(self, run_id: str, deadline: float) -> Run:
        while True:
            asked = self._http.clock()
            run = self._http.call(Run, Request("GET", "/api/runs", {"id": run_id, "wait": self._patience(deadline)}))
            if _settled(run):
                return run
            self._go_on(run_id, asked, deadline)

    def _deadline(self, timeout: float | None) -> float:
        return math.inf if timeout is None else self._http.clock() + timeout

    def _patience(self, deadline: float) -> int:
        """Return how many seconds the service should wait:

        less than the transport's timeout, so that it responds in time.
        """
        most = max(1, min(_LONGEST_WAIT, int(self._http.timeout - 5)))
        return int(min(most, max(0, math.ceil(deadline - self._http.clock())))) if deadline < math.inf else most

    def _go_on(self, run_id: str, asked: float, deadline: float) -> None:
        now = self._http.clock()
        if now >= deadline:
            raise WaitEndedError(f"waiting ended before run {run_id} finished; the run continues", run_id=run_id)
        if now - asked < 0.5:  # a service that is shutting down responds immediately
            self._http.pause(0.5)


class Knowledge(Group):
    """Documents that agents search and cite."""

    def upload(
        self,
        file: str | os.PathLike[str] | bytes | IO[bytes] | None = None,
        *,
        name: str | None = None,
        content: str | None = None,
        url: str | None = None,
        mime_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Document:
        """Add a document: a path, bytes, a file opened in binary mode, a text as `content`, or a
        `url` to fetch.

        The service then processes the document; see `wait`. Adding the same bytes again returns the
        same document.
        """
        if sum(given is not None for given in (file, content, url)) != 1:
            raise ValueError("pass exactly one of file, content and url")
        if file is None:
            body = {"name": name, "content": content, "url": url, "mimeType": mime_type, "metadata": metadata}
            return self._http.call(Document, json_request("POST", "/api/knowledge", {}, body))
        known, data = read_file(file)
        return self._http.call(Document, form_request(name or known, data, mime_type, metadata))

    def get(self, document_id: str) -> Document:
        """Read a document's state and progress."""
        return self._http.call(Document, Request("GET", "/api/knowledge", {"id": require_id(document_id)}))

    def wait(self, document_id: str, *, timeout: float | None = None) -> Document:
        """Wait until a document is `ready` or `failed`, and return it.

        After `timeout` seconds it raises `WaitEndedError`.
        """
        deadline = self._client.runs._deadline(timeout)
        pause = 0.1
        while True:
            document = self.get(document_id)
            if document["status"] in ("ready", "failed"):
                return document
            if self._http.clock() >= deadline:
                raise WaitEndedError(f"waiting ended before document {document_id} was ready; its status is {document['status']}", document_id=document_id)
            self._http.pause(min(pause, max(0.0, deadline - self._http.clock())))
            pause = min(2.0, pause * 1.5)

    def list(
        self,
        *,
        q: str | None = None,
        status: Literal["queued", "processing", "ready", "failed"] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[Document]:
        """List documents, newest first. `q` is a part of their names."""
        return self._page(Document, "/api/knowledge", {"q": q, "status": status, "limit": limit, "cursor": cursor})

    def search(
        self,
        query: str,
        *,
        document_ids: Sequence[str] | None = None,
        metadata: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> FoundList:
        """Find passages, best first, as agents do: in all ready documents, or in some of them."""
        having = [f"{key}:{value}" for key, value in metadata.items()] if metadata else None
        asked = {"query": query, "documentId": document_ids, "metadata": having, "limit": limit}
        return self._http.call(FoundList, Request("GET", "/api/knowledge", asked))

    def download(self, document_id: str) -> bytes:
        """Download a document's original."""
        return self._http.content(Request("GET", "/api/knowledge", {"id": require_id(document_id), "content": "1"}))

    def page(self, document_id: str, page: int) -> DocumentPage:
        """Read the text of a page, from 1."""
        return self._about(DocumentPage, "GET", "/api/knowledge", document_id, {"page": page})

    def passages(self, document_id: str, chunk: int) -> DocumentPassages:
        """Read a passage by its number, from 0, with the passages around it."""
        return self._about(DocumentPassages, "GET", "/api/knowledge", document_id, {"chunk": chunk})

    def update(
        self,
        document_id: str,
        file: str | os.PathLike[str] | bytes | IO[bytes] | None = None,
        *,
        name: str | None = None,
        content: str | None = None,
        url: str | None = None,
        mime_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Document:
        """Change a document, or replace its content.

        Omitted fields keep their values. New content or a new name is processed again.
        """
        query = {"id": require_id(document_id)}
        if file is None:
            body = {"name": name, "content": content, "url": url, "mimeType": mime_type, "metadata": metadata}
            return self._http.call(Document, json_request("PUT", "/api/knowledge", query, body))
        known, data = read_file(file)
        return self._http.call(Document, form_request(name or known, data, mime_type, metadata, "PUT", query))

    def retry(self, document_id: str) -> Document:
        """Process a failed or ready document again."""
        return self._http.call(Document, Request("POST", "/api/knowledge", {"id": require_id(document_id), "action": "retry"}))

    def delete(self, document_id: str) -> Deleted:
        """Delete a document. Its passages are no longer found or cited."""
        return self._http.call(Deleted, Request("DELETE", "/api/knowledge", {"id": require_id(document_id)}))


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
    if api_key is not None and not api_key.strip():  # an empty argument must not fall back to the environment's key
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
    except PackageNotFoundError:  # imported from a checkout
        return "0"


VERSION = _version()


def _settled(run: Run) -> bool:
    return run["status"] in _ENDED or run["status"] == "requires_action"


def _agent(
    name: str | None,
    system_prompt: str | None,
    description: str | None,
    model: str | None,
    fallback_models: Sequence[str] | None,
    tools: ToolsChange | None,
    allowed_callers: Sequence[str] | None,
    widget: WidgetChange | None,
) -> dict[str, Any]:
    return {
        "name": name,
        "systemPrompt": system_prompt,
        "description": description,
        "model": model,
        "fallbackModels": fallback_models,
        "tools": tools,
        "allowedCallers": allowed_callers,
        "widget": widget,
    }
