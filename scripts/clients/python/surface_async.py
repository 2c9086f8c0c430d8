"""Calls every method of the asynchronous client against the service."""

import asyncio
import io
import os
import pathlib
import uuid

import parley
from parley import AsyncParley

word = uuid.uuid4().hex


async def agents(client):
    agent = await client.agents.create(name=f"Async {word}", system_prompt="Answer.", model="offline/echo", allowed_callers=["user", "system"])
    assert await client.agents.get(agent["id"]) == agent
    other = await client.agents.create(template_id="tpl_support", name=f"Async {word} from a template")
    changed = await client.agents.update(agent["id"], description="e", version=agent["version"])
    assert changed["version"] == agent["version"] + 1
    assert [each["id"] async for each in client.agents.list(q=word, limit=1)] == [other["id"], agent["id"]]
    assert await client.agents.preview(agent["id"], input_data={"customer": "Ada"}) == {"systemPrompt": "Answer."}
    page = await client.agents.list(q=word, limit=1)
    assert page.has_more and page.next_cursor and [each["id"] async for each in page] == [other["id"], agent["id"]]
    second = await page.next_page()
    assert second.data == [changed] and await second.next_page() is None
    assert await client.agents.delete(other["id"]) == {"id": other["id"], "deleted": True}
    assert "tpl_support" in [template["id"] async for template in client.templates.list(limit=2)]
    return agent["id"]


async def errors(client):
    for call, kind, code in (
        (lambda: client.agents.create(name="", system_prompt=""), parley.BadRequestError, "invalid_request"),
        (lambda: client.agents.get("ag_nobody"), parley.NotFoundError, "not_found"),
        (lambda: client.chat.stream(agent_id="ag_nobody", message="x").final_run(), parley.NotFoundError, "not_found"),
        (lambda: client.runs.stream("run_nobody").final_run(), parley.NotFoundError, "not_found"),
        (AsyncParley(api_key="ak_nobody").agents.list().__aiter__().__anext__, parley.AuthenticationError, "unauthenticated"),
        (lambda: AsyncParley(demo=True).runs.get("run_x"), parley.PermissionDeniedError, "demo_restricted"),
    ):
        try:
            await call()
            raise SystemExit(f"no {code}")
        except kind as error:
            assert error.code == code and error.request_id, error


async def chat(client, agent):
    run = await client.chat(agent_id=agent, message="Grüße 👋", session_id=word)
    assert (run["status"], run["message"], run["sessionId"]) == ("completed", "echo: Grüße 👋", word), run
    early = await client.chat(agent_id=agent, message="d", wait=False)
    assert (await client.runs.wait(early["id"], timeout=30))["message"] == "echo: d"
    stream = client.chat.stream(agent_id=os.environ["AGENT_ID"], message="What is 12 * 12?")
    events = [event async for event in stream]
    run = await stream.final_run()
    assert "".join(event["data"]["text"] for event in events if event["event"] == "message.delta") == run["message"]
    assert [event async for event in client.runs.stream(stream.run_id)] == events
    assert [event async for event in client.runs.stream(stream.run_id, last_event_id=events[2]["id"])] == events[3:]
    async with AsyncParley(demo=True) as visitor, visitor.chat.stream(template_id="tpl_support", message="Hello") as stream:
        assert "".join([text async for text in stream.text()]) == (await stream.final_run())["message"]


async def runs(client, agent):
    triggered = await client.automations.run(target=agent, message="x", automation_id=f"nächtlich {word}", trigger_type="schedule", idempotency_key=word)
    assert (triggered["status"], triggered["idempotencyKey"]) == ("completed", word), triggered
    assert await client.automations.run(target=agent, message="x", idempotency_key=word) == triggered
    assert await client.runs.get(triggered["id"]) == triggered
    assert [each["id"] async for each in client.runs.list(automation_id=f"nächtlich {word}")] == [triggered["id"]]
    asks = await client.chat(agent_id=os.environ["BOOKS_WITH_APPROVAL"], message=f'Use bookBill with {{"bill": "{word}"}}')
    assert asks["status"] == "requires_action", asks
    await client.runs.act(asks["id"], "approve", tool_call_id=asks["requiredAction"]["toolCallId"])
    assert (await client.runs.wait(asks["id"]))["status"] == "completed"
    waits = await client.chat(agent_id=os.environ["BOOKS_WITH_APPROVAL"], message=f'Use bookBill with {{"bill": "{word}-cancel"}}')
    await client.runs.cancel(waits["id"])
    assert (await client.runs.wait(waits["id"]))["status"] == "cancelled"


async def knowledge(client):
    path = pathlib.Path(f"async {word}.md")
    path.write_text(f"# Signing\n\nReleases {word} are signed by Ann.\n", encoding="utf-8")
    documents = await asyncio.gather(
        client.knowledge.upload(path, metadata={"team": word}),
        client.knowledge.upload(io.BytesIO(f"Bytes {word} of a buffer.".encode()), name="buffer.txt"),
        client.knowledge.upload(f"Bytes {word} alone.".encode(), name="bytes.txt"),
        client.knowledge.upload(content=f"Text {word}.", name="text.md"),
    )
    for document in await asyncio.gather(*(client.knowledge.wait(document["id"], timeout=60) for document in documents)):
        assert document["status"] == "ready", document
    assert (await client.knowledge.get(documents[0]["id"]))["metadata"] == {"team": word}
    assert {each["id"] async for each in client.knowledge.list(limit=2)} >= {document["id"] for document in documents}
    hits = (await client.knowledge.search(f"who signs releases {word}", metadata={"team": word}))["data"]  # other scripts upload similar texts
    assert [hit["documentId"] for hit in hits] == [documents[0]["id"]], hits
    for document in documents:
        assert (await client.knowledge.delete(document["id"]))["deleted"]


async def fifty(client, agent):
    async def one(number):
        stream = client.chat.stream(agent_id=agent, message=f"{number} of fifty")
        text = "".join([piece async for piece in stream.text()])
        assert text == f"echo: {number} of fifty" == (await stream.final_run())["message"], text

    await asyncio.gather(*(one(number) for number in range(50)))


async def main():
    async with AsyncParley() as client:
        agent = await agents(client)
        await asyncio.gather(errors(client), chat(client, agent), runs(client, agent), knowledge(client))
        await fifty(client, agent)
        await client.agents.delete(agent)
    print("all of it")


asyncio.run(main())
