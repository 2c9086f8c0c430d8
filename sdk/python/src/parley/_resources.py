"""The groups of calls that manage an organization's resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from ._group import Group, require_id
from ._reading import Page
from ._requests import json_request
from ._transport import Request
from .types import (
    Budget,
    BudgetMetric,
    BudgetPeriod,
    BudgetScope,
    Deleted,
    Delivery,
    DeliveryStatus,
    DeliveryWithBody,
    Hook,
    HookChange,
    HookTest,
    Key,
    KeyScope,
    KeyWithSecret,
    Limits,
    NewHook,
    NotificationEndpoint,
    NotificationEvent,
    NotificationMessage,
    NotificationStatus,
    Session,
    SessionWithMessages,
    Source,
    TakenDelivery,
    UploadedFile,
    UsageReport,
)


class Sessions(Group):
    """Chats with their messages."""

    def get(
        self,
        session_id: str,
        *,
        agent_id: str | None = None,
        template_id: str | None = None,
        principal: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> SessionWithMessages:
        """Read a session with its messages, oldest first.

        `limit` is a number of turns, and the result's `nextCursor` leads to older turns. `agent_id`
        or `template_id` are needed if several have a session with this id. `principal` is for
        admins.
        """
        query = {"agentId": agent_id, "templateId": template_id, "principal": principal, "limit": limit, "cursor": cursor}
        return self._about(SessionWithMessages, "GET", "/api/sessions", session_id, query)

    def list(self, *, principal: str | None = None, limit: int | None = None, cursor: str | None = None) -> Page[Session]:
        """List the caller's sessions, newest first. Admins get all sessions of the organization."""
        return self._page(Session, "/api/sessions", {"principal": principal, "limit": limit, "cursor": cursor})

    def delete(
        self, session_id: str, *, agent_id: str | None = None, template_id: str | None = None, principal: str | None = None
    ) -> Deleted:
        """Erase a session: its messages, and the texts, steps and events of its runs."""
        query = {"agentId": agent_id, "templateId": template_id, "principal": principal}
        return self._about(Deleted, "DELETE", "/api/sessions", session_id, query)


class Files(Group):
    """The files that runs created, and uploads for messages."""

    def upload(
        self, file: bytes, *, name: str | None = None, mime_type: str | None = None, session_id: str | None = None
    ) -> UploadedFile:
        """Store an image or a document for the `attachments` of a message."""
        headers = {"Content-Type": mime_type or "application/octet-stream"}
        query = {"name": name, "sessionId": session_id}
        return self._http.call(UploadedFile, Request("POST", "/api/files", query, headers, file))

    def download(self, file_id: str) -> bytes:
        """Download a file by its id in the `output["files"]` of a tool call."""
        return self._http.content(Request("GET", "/api/files", {"id": require_id(file_id)}))


class Sources(Group):
    """The texts that answers cite."""

    def get(self, source_id: str) -> Source:
        """Read a text by the `sourceId` of a citation, as it was when a run read it."""
        return self._about(Source, "GET", "/api/sources", source_id)


class Hooks(Group):
    """The webhooks that start runs, and their deliveries. Only admins may use them."""

    def create(self, hook: NewHook) -> Hook:
        """Create a hook. A secret that the service generates is shown only in this result.

        The request is not repeated if the service may have carried it out.
        """
        return self._http.call(Hook, json_request("POST", "/api/hooks", {}, cast(Mapping[str, Any], hook), repeatable=False))

    def get(self, hook_id: str) -> Hook:
        """Read a hook."""
        return self._about(Hook, "GET", "/api/hooks", hook_id)

    def list(self, *, limit: int | None = None, cursor: str | None = None) -> Page[Hook]:
        """List hooks, newest first."""
        return self._page(Hook, "/api/hooks", {"limit": limit, "cursor": cursor})

    def update(self, hook_id: str, change: HookChange) -> Hook:
        """Change a hook. Omitted fields keep their values, and None removes a value."""
        return self._http.call(Hook, json_request("PUT", "/api/hooks", {"id": require_id(hook_id)}, cast(Mapping[str, Any], change), nulls=True))

    def rotate_secret(self, hook_id: str, *, secret: str | None = None, keep_seconds: int | None = None) -> Hook:
        """Set a new secret. The previous one stays valid for `keep_seconds`."""
        body = {"secret": secret, "keepSeconds": keep_seconds}
        return self._http.call(Hook, json_request("POST", "/api/hooks", {"id": require_id(hook_id), "action": "rotate"}, body, repeatable=False))

    def test(self, hook_id: str, delivery: HookTest | None = None) -> TakenDelivery:
        """Send a delivery, signed as the source would sign it."""
        query, body = {"id": require_id(hook_id), "action": "test"}, cast(Mapping[str, Any], delivery or {})
        return self._http.call(TakenDelivery, json_request("POST", "/api/hooks", query, body, repeatable=False))

    def delete(self, hook_id: str) -> Deleted:
        """Delete a hook and its deliveries. The runs that they started stay."""
        return self._about(Deleted, "DELETE", "/api/hooks", hook_id)

    def list_deliveries(
        self,
        *,
        hook_id: str | None = None,
        run_id: str | None = None,
        status: DeliveryStatus | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[Delivery]:
        """List deliveries, newest first."""
        query = {"hookId": hook_id, "runId": run_id, "status": status, "limit": limit, "cursor": cursor}
        return self._page(Delivery, "/api/hooks/deliveries", query)

    def get_delivery(self, hook_id: str, delivery_id: str) -> DeliveryWithBody:
        """Read a delivery to a hook, with its body."""
        return self._about(DeliveryWithBody, "GET", "/api/hooks/deliveries", delivery_id, {"hookId": require_id(hook_id)})

    def redeliver(self, hook_id: str, delivery_id: str) -> TakenDelivery:
        """Start a new run from a stored delivery."""
        query = {"hookId": require_id(hook_id), "action": "redeliver"}
        return self._about(TakenDelivery, "POST", "/api/hooks/deliveries", delivery_id, query)


class Notifications(Group):
    """The endpoints that receive the organization's events, and the notifications that were sent to
    these endpoints. Only admins may use them.
    """

    def create(
        self,
        *,
        url: str,
        events: Sequence[NotificationEvent],
        description: str | None = None,
        agent_id: str | None = None,
        enabled: bool | None = None,
    ) -> NotificationEndpoint:
        """Create an endpoint. Its secret is shown only in this result.

        The request is not repeated if the service may have carried it out.
        """
        body = {"url": url, "events": events, "description": description, "agentId": agent_id, "enabled": enabled}
        return self._http.call(NotificationEndpoint, json_request("POST", "/api/notifications", {}, body, repeatable=False))

    def get(self, endpoint_id: str) -> NotificationEndpoint:
        """Read an endpoint."""
        return self._about(NotificationEndpoint, "GET", "/api/notifications", endpoint_id)

    def list(self, *, limit: int | None = None, cursor: str | None = None) -> Page[NotificationEndpoint]:
        """List endpoints."""
        return self._page(NotificationEndpoint, "/api/notifications", {"limit": limit, "cursor": cursor})

    def update(
        self,
        endpoint_id: str,
        *,
        url: str | None = None,
        events: Sequence[NotificationEvent] | None = None,
        description: str | None = None,
        agent_id: str | None = None,
        enabled: bool | None = None,
    ) -> NotificationEndpoint:
        """Change an endpoint. Omitted fields keep their values."""
        body = {"url": url, "events": events, "description": description, "agentId": agent_id, "enabled": enabled}
        return self._http.call(NotificationEndpoint, json_request("PUT", "/api/notifications", {"id": require_id(endpoint_id)}, body))

    def rotate_secret(self, endpoint_id: str) -> NotificationEndpoint:
        """Create a new secret, which is shown only in this result.

        For a day, requests also carry a signature with the old one.
        """
        return self._about(NotificationEndpoint, "POST", "/api/notifications", endpoint_id, {"action": "rotate"})

    def test(self, endpoint_id: str) -> NotificationMessage:
        """Send a ping to an endpoint. `get_message` shows the outcome."""
        return self._about(NotificationMessage, "POST", "/api/notifications", endpoint_id, {"action": "test"})

    def delete(self, endpoint_id: str) -> Deleted:
        """Delete an endpoint and its messages."""
        return self._about(Deleted, "DELETE", "/api/notifications", endpoint_id)

    def list_messages(
        self,
        *,
        endpoint_id: str | None = None,
        status: NotificationStatus | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[NotificationMessage]:
        """List messages to endpoints, newest first."""
        query = {"endpointId": endpoint_id, "status": status, "limit": limit, "cursor": cursor}
        return self._page(NotificationMessage, "/api/notifications/messages", query)

    def get_message(self, message_id: str) -> NotificationMessage:
        """Read a message with its payload."""
        return self._about(NotificationMessage, "GET", "/api/notifications/messages", message_id)

    def resend(self, message_id: str) -> NotificationMessage:
        """Send a message again, under the same id."""
        return self._about(NotificationMessage, "POST", "/api/notifications/messages", message_id, {"action": "resend"})


class Keys(Group):
    """API keys."""

    def create(self, *, name: str, scope: KeyScope, expires_at: str | None = None) -> KeyWithSecret:
        """Create a key. The key itself is shown only in this result.

        The request is not repeated if the service may have carried it out.
        """
        body = {"name": name, "scope": scope, "expiresAt": expires_at}
        return self._http.call(KeyWithSecret, json_request("POST", "/api/keys", {}, body, repeatable=False))

    def get(self, key_id: str) -> Key:
        """Read a key, without its secret."""
        return self._about(Key, "GET", "/api/keys", key_id)

    def list(self, *, limit: int | None = None, cursor: str | None = None) -> Page[Key]:
        """List the caller's own keys, or all keys of the organization if the caller is an admin."""
        return self._page(Key, "/api/keys", {"limit": limit, "cursor": cursor})

    def rotate(self, key_id: str, *, overlap_seconds: int | None = None) -> KeyWithSecret:
        """Create a key that replaces another one. The old key stays valid for `overlap_seconds`."""
        query, body = {"id": require_id(key_id), "action": "rotate"}, {"overlapSeconds": overlap_seconds}
        return self._http.call(KeyWithSecret, json_request("POST", "/api/keys", query, body, repeatable=False))

    def delete(self, key_id: str) -> Deleted:
        """Revoke a key. It stops working within 5 seconds."""
        return self._about(Deleted, "DELETE", "/api/keys", key_id)


class UsageReports(Group):
    """Counts, costs and limits."""

    def get(
        self,
        *,
        days: int | None = None,
        agent_id: str | None = None,
        key_id: str | None = None,
        automation_id: str | None = None,
        by: Literal["agent", "key", "automation"] | None = None,
    ) -> UsageReport:
        """Count runs, tokens, costs and latencies by hour or by day. Only admins may call it."""
        query = {"days": days, "agentId": agent_id, "keyId": key_id, "automationId": automation_id, "by": by}
        return self._http.call(UsageReport, Request("GET", "/api/usage", query))

    def limits(self) -> Limits:
        """Read the organization's limits and how much of them is used."""
        return self._http.call(Limits, Request("GET", "/api/organizations/limits"))


class Budgets(Group):
    """Hard caps of tokens and costs. Only admins may use them."""

    def create(
        self, *, scope: BudgetScope, metric: BudgetMetric, period: BudgetPeriod, limit: int, subject_id: str | None = None
    ) -> Budget:
        """Create a budget. The request is not repeated if the service may have carried it out."""
        body = {"scope": scope, "subjectId": subject_id, "metric": metric, "period": period, "limit": limit}
        return self._http.call(Budget, json_request("POST", "/api/budgets", {}, body, repeatable=False))

    def get(self, budget_id: str) -> Budget:
        """Read a budget and the amounts used and reserved in the current period."""
        return self._about(Budget, "GET", "/api/budgets", budget_id)

    def list(self, *, limit: int | None = None, cursor: str | None = None) -> Page[Budget]:
        """List budgets."""
        return self._page(Budget, "/api/budgets", {"limit": limit, "cursor": cursor})

    def update(self, budget_id: str, *, limit: int) -> Budget:
        """Change a budget's limit."""
        return self._http.call(Budget, json_request("PUT", "/api/budgets", {"id": require_id(budget_id)}, {"limit": limit}))

    def delete(self, budget_id: str) -> Deleted:
        """Delete a budget. The cap no longer applies."""
        return self._about(Deleted, "DELETE", "/api/budgets", budget_id)
