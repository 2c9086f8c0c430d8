"""Agents and templates, and messages to them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from ._group import Group, require_id
from ._output import json_schema, parsed
from ._reading import Page, Stream
from ._requests import json_request, with_settings
from ._transport import Request
from .types import (
    Agent,
    AgentCheck,
    ClientTool,
    Deleted,
    ImportedEndpoints,
    ModelSetting,
    ModelSettings,
    NewAttachment,
    OpenApiImport,
    OutputOptions,
    OutputSchema,
    PromptPreview,
    Run,
    Template,
    ToolsChange,
    WidgetChange,
)


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
        settings: ModelSettings | None = None,
        overridable: Sequence[ModelSetting] | None = None,
        output_schema: OutputSchema | None = None,
    ) -> Agent:
        """Create an agent from a name and a system prompt, or from a template and changes to it.

        Each call creates an agent. The request is not repeated if the service may have carried it
        out.
        """
        body = {**_agent(name, system_prompt, description, model, fallback_models, tools, allowed_callers, widget), "templateId": template_id}
        body = with_settings({**body, "overridable": overridable, "outputSchema": output_schema}, settings)
        return self._http.call(Agent, json_request("POST", "/api/agents", {}, body, repeatable=False, nulls=True))

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
        settings: ModelSettings | None = None,
        overridable: Sequence[ModelSetting] | None = None,
        output_schema: OutputSchema | None = None,
        version: int | None = None,
    ) -> Agent:
        """Change an agent.

        Omitted fields keep their values. A setting whose value is None is removed. If `version` is
        given and the agent has another version, the call raises `ConflictError`.
        """
        body = {**_agent(name, system_prompt, description, model, fallback_models, tools, allowed_callers, widget), "version": version}
        body = with_settings({**body, "overridable": overridable, "outputSchema": output_schema}, settings)
        query = {"id": require_id(agent_id)}
        return self._http.call(Agent, json_request("PUT", "/api/agents", query, body, repeatable=version is None, nulls=True))

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

    def preview(
        self,
        agent_id: str,
        *,
        system_prompt: str | None = None,
        input_data: Mapping[str, Any] | None = None,
        session_id: str | None = None,
    ) -> PromptPreview:
        """Return an agent's system prompt, or another one, with the values of its variables.

        `input_data` is the input of a run. Without it, the variables of the input are empty.
        """
        query = {"id": require_id(agent_id), "action": "preview"}
        body = {"systemPrompt": system_prompt, "input": input_data, "sessionId": session_id}
        return self._http.call(PromptPreview, json_request("POST", "/api/agents", query, body))


class Templates(Group):
    """The templates, with which everyone may chat."""

    def get(self, template_id: str) -> Template:
        """Read a template."""
        return self._about(Template, "GET", "/api/agents/templates", template_id)

    def list(self, *, limit: int | None = None, cursor: str | None = None) -> Page[Template]:
        """List templates."""
        return self._page(Template, "/api/agents/templates", {"limit": limit, "cursor": cursor})


class Chat(Group):
    """Messages to agents and templates. Call the object to get the run, or `stream` to get its events."""

    def __call__(
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

        With `wait=False` it returns as soon as the run is accepted. Messages with the same
        `session_id` form a chat. By default each message has its own session. After `timeout`
        seconds it raises `WaitEndedError`, and the run continues. `output` is the form of the
        answer. `settings` take precedence over the agent's; None means the model's default. `tools`
        are executed by this program; see `runs.submit_tool_results`. `attachments` are images and
        documents of the message. With attachments, the message may be empty; see `files.upload`.
        """
        request = self._request(message, agent_id, template_id, session_id, idempotency_key, output, settings, tools, attachments, stream=False)
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
        request = self._request(message, agent_id, template_id, session_id, idempotency_key, output, stream=False)
        return parsed(self._client.runs._submitted(request, True, timeout), schema)

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
    ) -> Stream:
        """Return the events of a message's run.

        The message is sent when the stream is first read.
        """
        request = self._request(message, agent_id, template_id, session_id, idempotency_key, output, settings, tools, attachments, stream=True)
        return self._client.runs._events(request)

    def _request(
        self,
        message: str,
        agent_id: str | None,
        template_id: str | None,
        session_id: str | None,
        key: str | None,
        output: OutputOptions | None,
        settings: ModelSettings | None = None,
        tools: Sequence[ClientTool] | None = None,
        attachments: Sequence[NewAttachment] | None = None,
        *,
        stream: bool,
    ) -> Request:
        if (agent_id is None) == (template_id is None):
            raise ValueError("pass exactly one of agent_id and template_id")
        key = str(uuid.uuid4()) if key is None else key
        if session_id is None:
            # The session id is derived from the idempotency key, so that the same key always
            # identifies the same message. A session id has at most 128 characters.
            if len(key) > 124:
                raise ValueError("session_id is required with an idempotency_key of more than 124 characters")
            session_id = f"key-{key}"
        lists = {"tools": list(tools) if tools else None, "attachments": list(attachments) if attachments else None}
        body = with_settings({"sessionId": session_id, "message": message, "output": output, "stream": stream or None, **lists}, settings)
        query = {"action": "chat", "id": agent_id, "template": template_id}
        return json_request("POST", "/api/agents", query, body, {"Idempotency-Key": key}, nulls=True)


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
