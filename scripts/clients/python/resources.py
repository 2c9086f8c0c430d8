"""Manages each resource of an organization with the client."""

import os
import uuid

import features
import parley
from parley import Parley

word = uuid.uuid4().hex
with Parley() as client:
    agent = client.agents.create(
        name=word, system_prompt="Answer.", allowed_callers=["user", "system"], tools={"codeExecution": {"enabled": True}}
    )["id"]

    # Attachments, and a session that continues.
    image = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="  # a PNG with one pixel
    note = client.files.upload(b"The canteen opens at noon.", name="note.txt")["id"]
    seen = client.chat(
        agent_id=agent, session_id=f"{word}-talks", message="Which image and file are attached?",
        attachments=[{"fileId": note}, {"data": image, "mediaType": "image/png", "name": "dot.png"}],
    )
    assert "image/png" in seen["message"] and "note.txt" in seen["message"], seen
    assert [each["name"] for each in seen["attachments"]] == ["note.txt", "dot.png"], seen
    client.chat(agent_id=agent, session_id=f"{word}-talks", message="My code word is heron.")
    assert "heron" in client.chat(agent_id=agent, session_id=f"{word}-talks", message="What is my code word?")["message"]
    assert "heron" not in client.chat(agent_id=agent, message="What is my code word?")["message"]

    # Runs, files, sources, sessions and automations.
    run = client.chat(agent_id=agent, session_id=word, message="Run this:\n```python\nopen('made.txt', 'w').write('made')\n```")
    output = run["toolCalls"][0]["output"]
    assert client.files.download(output["files"][0]["id"]) == b"made", output
    assert client.files.upload(b"# Notes", name="notes.md")["mimeType"] == "text/markdown"
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    asks = client.chat(
        agent_id=agent, session_id=f"{word}-tools", message="Call weather with city: Bern", tools=[{"name": "weather", "inputSchema": schema}]
    )
    calls = asks["requiredAction"]["calls"]
    client.runs.submit_tool_results(asks["id"], [{"toolCallId": call["toolCallId"], "output": {"degrees": 7}} for call in calls])
    assert "7" in client.runs.wait(asks["id"])["message"]
    assert len(client.runs.timeline(run["id"])["spans"]) > 1
    try:
        client.sources.get("src_" + "0" * 64)
        raise SystemExit("a source was invented")
    except parley.NotFoundError:
        pass
    session = client.sessions.get(word, agent_id=agent, limit=5)
    assert [message["role"] for message in session["messages"]] == ["user", "assistant"], session
    assert client.sessions.list(limit=5).data
    assert client.sessions.delete(word, agent_id=agent) == {"id": word, "deleted": True}
    client.automations.run(target=agent, message="hello", automation_id=word)
    assert client.automations.get(word)["agentId"] == agent
    assert word in [each["id"] for each in client.automations.list()]

    # Knowledge.
    text = f"# {word}\n\nTickets are counted."
    document = client.knowledge.upload(content=text, name=f"{word}.md")["id"]
    client.knowledge.wait(document)
    assert client.knowledge.download(document) == text.encode()
    try:
        client.knowledge.page(document, 1)
        raise SystemExit("a text has a page")
    except parley.NotFoundError as error:
        assert "has no pages" in error.detail, error
    assert "counted" in client.knowledge.passages(document, 0)["passages"][0]["text"]
    assert client.knowledge.update(document, metadata={"team": word})["metadata"] == {"team": word}
    client.knowledge.update(document, f"# {word}\n\nTickets are weighed.".encode(), name=f"{word}.md")
    client.knowledge.wait(document)
    assert client.knowledge.retry(document)["id"] == document
    client.knowledge.wait(document)
    assert "weighed" in client.knowledge.passages(document, 0)["passages"][0]["text"]
    client.knowledge.delete(document)

    # Hooks.
    hook = client.hooks.create({"name": word, "agentId": agent, "source": "github", "messageTemplate": "An issue was {{action}}.", "coalesce": {"key": "{{action}}", "windowSeconds": 30, "maxWaitSeconds": 300}})
    assert client.hooks.get(hook["id"])["name"] == word
    assert hook["id"] in [each["id"] for each in client.hooks.list()]
    changed = client.hooks.update(hook["id"], {"messageTemplate": "It was {{action}}.", "coalesce": None})
    assert (changed["messageTemplate"], changed["coalesce"]) == ("It was {{action}}.", None), changed
    assert client.hooks.rotate_secret(hook["id"], keep_seconds=60)["secret"] != hook["secret"]
    taken = client.hooks.test(hook["id"], {"event": "issues", "payload": {"action": "opened"}})
    assert client.hooks.get_delivery(hook["id"], taken["deliveryId"])["status"] == "accepted"
    again = client.hooks.redeliver(hook["id"], taken["deliveryId"])
    assert [each["id"] for each in client.hooks.list_deliveries(hook_id=hook["id"], limit=1)] == [again["deliveryId"], taken["deliveryId"]]
    assert client.hooks.delete(hook["id"])["deleted"]

    # Notifications.
    endpoint = client.notifications.create(url=os.environ["LEDGER"], events=["run.failed"], agent_id=agent)
    assert client.notifications.get(endpoint["id"])["secret"] == "***"
    assert endpoint["id"] in [each["id"] for each in client.notifications.list()]
    assert client.notifications.update(endpoint["id"], description=word)["description"] == word
    assert client.notifications.rotate_secret(endpoint["id"])["secret"] != endpoint["secret"]
    message = client.notifications.test(endpoint["id"])
    assert client.notifications.get_message(message["id"])["event"] == "ping"
    assert [each["id"] for each in client.notifications.list_messages(endpoint_id=endpoint["id"])] == [message["id"]]
    assert client.notifications.resend(message["id"])["id"] == message["id"]
    assert client.notifications.delete(endpoint["id"])["deleted"]

    # Keys, budgets and usage.
    made = client.keys.create(name=word, scope="organization")
    assert Parley(api_key=made["key"]).keys.get(made["id"])["name"] == word
    rotated = client.keys.rotate(made["id"], overlap_seconds=0)
    assert rotated["id"] in [each["id"] for each in client.keys.list(limit=100)]
    assert client.keys.delete(rotated["id"])["deleted"]
    budget = client.budgets.create(scope="agent", subject_id=agent, metric="tokens", period="month", limit=1_000_000_000)
    assert client.budgets.update(budget["id"], limit=2_000_000_000)["limit"] == 2_000_000_000
    assert client.budgets.get(budget["id"])["subjectId"] == agent
    assert budget["id"] in [each["id"] for each in client.budgets.list()]
    assert client.budgets.delete(budget["id"])["deleted"]
    assert client.usage.get(days=2, agent_id=agent)["interval"] == "hour"
    assert client.usage.limits()["rates"]

    # Agents and templates.
    tickets = {"get": {"operationId": "listTickets", "summary": "Lists tickets", "responses": {"200": {"description": "The tickets"}}}}
    described = {"openapi": "3.1.0", "info": {"title": "Tickets", "version": "1"}, "servers": [{"url": "https://tickets.example.com/v1"}], "paths": {"/tickets": tickets}}
    checked = client.agents.check(agent)
    assert checked["checks"] and client.agents.get(agent)["lastCheck"] == checked
    preview = client.agents.preview(agent, system_prompt="You help {{input.customer}}.", input_data={"customer": "Ada"})
    assert preview == {"systemPrompt": "You help Ada."}, preview
    assert client.agents.import_endpoints(agent, {"document": described})["imported"] == ["listTickets"]
    assert client.templates.get("tpl_support")["id"] == "tpl_support"
    client.agents.delete(agent)
print("all of it")
features.record("`parley-sdk`, Python", "works", "history", "tools", "images")
