"""Runs, and the automations that start them."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from ._errors import WaitEndedError
from ._events import Source
from ._group import Group, require_id
from ._output import json_schema, parsed
from ._reading import Page, Stream
from ._requests import json_request, with_settings
from ._transport import Request
from .types import Automation, ClientTool, ModelSettings, NewAttachment, OutputOptions, Run, RunSummary, RunStatus, Timeline, ToolResult

RunDecision = Literal["approve", "deny", "happened", "resend", "abandon"]
"""The decisions that a person can make about a run whose status is `requires_action`."""

_ENDED = ("completed", "failed", "cancelled", "timed_out")
_LONGEST_WAIT = 55  # maximum seconds for which the service waits in one request


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
        settings: ModelSettings | None = None,
        tools: Sequence[ClientTool] | None = None,
        attachments: Sequence[NewAttachment] | None = None,
        idempotency_key: str | None = None,
        wait: bool = True,
        timeout: float | None = None,
    ) -> Run:
        """Run an agent and return the run, once it has finished or requires an action.

        With `wait=False` it returns as soon as the run is accepted. `data` is the input for the agent.
        Its key `message`, or the argument `message`, is the text. Calls with the same
        `idempotency_key` and payload, from any process, return the same run. The default is a new
        key per call. After `timeout` seconds it raises `WaitEndedError`, and the run continues.
        `output` is the form of the answer. `settings` take precedence over the agent's; None means
        the model's default. `tools` are executed by this program; see `runs.submit_tool_results`.
        `attachments` are images and documents of the message; see `files.upload`.
        """
        given = dict(data or {})
        if message is not None and given.setdefault("message", message) != message:
            raise ValueError("message and data['message'] differ; pass only one of them")
        body: dict[str, Any] = {"target": require_id(target), "input": given, "ttlOverride": ttl_override, "sessionId": session_id}
        body["output"] = output
        body["tools"], body["attachments"] = list(tools) if tools else None, list(attachments) if attachments else None
        body = with_settings(body, settings)
        headers = {"Idempotency-Key": str(uuid.uuid4()) if idempotency_key is None else idempotency_key}
        for name, value in (("x-automation-id", automation_id), ("x-trigger-type", trigger_type)):
            if value is not None:
                headers[name] = value
        request = json_request("POST", "/api/internal/run-automation", {}, body, headers, nulls=True)
        return self._client.runs._submitted(request, wait, timeout)

    def parse(self, /, *, schema: Any, **trigger: Any) -> Any:
        """Run an agent and return the answer as data that matches a schema.

        `schema` is a JSON Schema, or a Pydantic model or `TypeAdapter`, whose object is returned. The
        other arguments are those of `run`. If the run does not complete, `RunFailedError` is raised.
        """
        return parsed(self.run(**trigger, output={"schema": json_schema(schema)}, wait=True), schema)

    def get(self, automation_id: str) -> Automation:
        """Read an automation with its newest run."""
        return self._about(Automation, "GET", "/api/automations", automation_id)

    def list(self, *, limit: int | None = None, cursor: str | None = None) -> Page[Automation]:
        """List automations in the order of their names."""
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
        trigger_type: str | None = None,
        status: RunStatus | None = None,
        waits_for: Literal["person", "client"] | None = None,
        from_: str | None = None,
        to: str | None = None,
        q: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[RunSummary]:
        """List runs in short form, newest first. `get` returns a complete run.

        `q` finds finished runs that contain its words.
        """
        query: dict[str, Any] = {"agentId": agent_id, "sessionId": session_id, "automationId": automation_id, "triggerType": trigger_type}
        query |= {"status": status, "waitsFor": waits_for, "from": from_, "to": to, "q": q, "limit": limit, "cursor": cursor}
        return self._page(RunSummary, "/api/runs", query)

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
        """Decide about the `requiredAction` of a run."""
        return self._http.call(Run, Request("POST", "/api/runs", {"id": require_id(run_id), "action": decision, "toolCallId": tool_call_id}))

    def submit_tool_results(self, run_id: str, results: Sequence[ToolResult]) -> Run:
        """Send the results of all calls that a run waits for.

        These are the calls of a `requiredAction` of the kind `client_tools`. The run then
        continues; `wait` returns its next state.
        """
        query = {"id": require_id(run_id), "action": "tool-results"}
        return self._http.call(Run, json_request("POST", "/api/runs", query, {"results": list(results)}))

    def _events(self, begin: Request) -> Stream:
        def resume(run_id: str) -> Request | None:
            if self._client._visitor:  # visitors may not read runs; the same message with the same key returns the stream again
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
            if not self._client._visitor:  # visitors may not read runs; they wait by sending the message again with its key
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
        """Return the number of seconds for which the service should wait. It is less than the
        transport's timeout, so that the response arrives in time.
        """
        most = max(1, min(_LONGEST_WAIT, int(self._http.timeout - 5)))
        return int(min(most, max(0, math.ceil(deadline - self._http.clock())))) if deadline < math.inf else most

    def _go_on(self, run_id: str, asked: float, deadline: float) -> None:
        now = self._http.clock()
        if now >= deadline:
            raise WaitEndedError(f"waiting ended before run {run_id} finished; the run continues", run_id=run_id)
        if now - asked < 0.5:  # a service that is shutting down responds immediately, so this prevents a busy loop
            self._http.pause(0.5)


def _settled(run: Run) -> bool:
    return run["status"] in _ENDED or run["status"] == "requires_action"
