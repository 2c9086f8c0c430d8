"""Calls every method of the client against the service."""

import io
import os
import pathlib
import uuid

import features
import parley
from parley import Parley

word = uuid.uuid4().hex
books = os.environ["BOOKS_WITH_APPROVAL"]  # the ID of an agent whose bookings need approval
with Parley() as client:
    # Agents.
    agent = client.agents.create(
        name=f"Surface {word}", system_prompt="Answer.", model="offline/echo", description="d", allowed_callers=["user", "system"],
        tools={"webSearch": {"enabled": False}}, widget={"enabled": True, "allowedOrigins": ["https://a.example"]}, fallback_models=["offline"],
    )
    assert client.agents.get(agent["id"]) == agent and agent["tools"]["webSearch"] == {"enabled": False}, agent
    changed = client.agents.update(agent["id"], description="e", version=agent["version"])
    assert (changed["description"], changed["systemPrompt"], changed["version"]) == ("e", "Answer.", agent["version"] + 1), changed
    try:
        client.agents.update(agent["id"], description="f", version=agent["version"])
        raise SystemExit("a change to an outdated version was accepted")
    except parley.ConflictError as error:
        assert (error.status, error.code, error.retryable) == (409, "version_conflict", False), error
    from_template = client.agents.create(template_id="tpl_support", name=f"Surface {word} from a template")
    found = client.agents.list(q=word, limit=1)
    assert (len(found.data), found.has_more, [each["id"] for each in found]) == (1, True, [from_template["id"], agent["id"]]), found.data
    second = found.next_page()
    assert second is not None and second.data[0] == changed and second.next_page() is None
    assert client.agents.delete(from_template["id"]) == {"id": from_template["id"], "deleted": True}
    try:
        client.agents.get(from_template["id"])
        raise SystemExit("a deleted agent was read")
    except parley.NotFoundError as error:
        assert error.code == "not_found" and error.request_id and error.request_id in str(error), error
    assert "tpl_support" in [template["id"] for template in client.templates.list(limit=2)]

    # Errors.
    try:
        client.agents.create(name="", system_prompt="", tools={"noSuch": {"enabled": True}})  # type: ignore[typeddict-unknown-key]
        raise SystemExit("invalid fields were accepted")
    except parley.BadRequestError as error:
        assert {"name", "systemPrompt", "tools.noSuch"} <= {each["field"] for each in error.errors}, error.errors
    for asked, field in (
        ({"message": "half \ud83d"}, "message"), ({"message": "x", "idempotency_key": "half \ud83d"}, "Idempotency-Key"),
        ({"message": "x", "session_id": ""}, "sessionId"), ({"message": "x", "idempotency_key": "", "session_id": "s"}, "Idempotency-Key"),
    ):
        try:
            client.chat(agent_id=agent["id"], **asked)
            raise SystemExit(f"{asked} was accepted")
        except parley.BadRequestError as error:
            assert field in {each["field"] for each in error.errors}, error.errors
    for ask in (lambda: client.knowledge.upload(b"x", name="half \udcff.txt"), lambda: client.agents.list(q="half \ud83d")):
        try:
            ask()
            raise SystemExit("a lone surrogate was accepted")
        except parley.BadRequestError as error:
            assert error.errors, error
    for key, kind, code in (("ak_nobody", parley.AuthenticationError, "unauthenticated"), ("ps_nobody", parley.AuthenticationError, "unauthenticated")):
        try:
            Parley(api_key=key).agents.list()
            raise SystemExit("an invalid key was accepted")
        except kind as error:
            assert error.code == code, error
    try:
        Parley(organization_id="org_00000000000000000000000000").agents.list()
        raise SystemExit("another organization was accepted")
    except parley.PermissionDeniedError as error:
        assert error.code == "organization_mismatch", error
    assert Parley(organization_id=os.environ["ORGANIZATION_ID"]).agents.get(agent["id"]) == changed

    # Chat and sessions.
    run = client.chat(agent_id=agent["id"], message="Grüße 👋", session_id=word)
    assert (run["status"], run["message"], run["sessionId"]) == ("completed", "echo: Grüße 👋", word), run
    assert parley.raise_for_status(run) is run
    assert client.chat(agent_id=agent["id"], message="a")["sessionId"] != client.chat(agent_id=agent["id"], message="a")["sessionId"]
    once = client.chat(agent_id=agent["id"], message="b", session_id=word, idempotency_key=word)
    assert client.chat(agent_id=agent["id"], message="b", session_id=word, idempotency_key=word) == once
    try:
        client.chat(agent_id=agent["id"], message="c", session_id=word, idempotency_key=word)
        raise SystemExit("one key was accepted for two requests")
    except parley.ConflictError as error:
        assert (error.status, error.code) == (422, "idempotency_key_reused"), error
    keyed = client.chat(agent_id=agent["id"], message="b", idempotency_key=f"{word}-alone")
    assert client.chat(agent_id=agent["id"], message="b", idempotency_key=f"{word}-alone") == keyed
    assert client.chat.stream(agent_id=agent["id"], message="b", idempotency_key=f"{word}-alone").final_run() == keyed
    assert Parley(demo=True).chat(template_id="tpl_support", message="b", idempotency_key="k" * 124)["status"] == "completed"
    early = client.chat(agent_id=agent["id"], message="d", wait=False)
    assert client.runs.wait(early["id"])["message"] == "echo: d"
    visitor = Parley(demo=True)
    assert visitor.chat(template_id="tpl_support", message="Hello")["status"] == "completed"
    with visitor.chat.stream(template_id="tpl_support", message="Hello") as stream:
        assert "".join(stream.text()) == stream.final_run()["message"]
    try:
        visitor.agents.list()
        raise SystemExit("a visitor saw agents")
    except parley.PermissionDeniedError as error:
        assert error.code == "demo_restricted", error

    # Streams.
    stream = client.chat.stream(agent_id=os.environ["AGENT_ID"], message="What is 12 * 12?")
    events = list(stream)
    text = "".join(event["data"]["text"] for event in events if event["event"] == "message.delta")
    assert (events[0]["event"], events[-1]["event"]) == ("run.created", "run.completed"), events
    assert stream.run_id == events[0]["data"]["runId"] and stream.last_event_id == events[-1]["id"]
    assert text == stream.final_run()["message"] and "144" in text, text
    assert list(client.runs.stream(stream.run_id)) == events
    assert list(client.runs.stream(stream.run_id, last_event_id=events[2]["id"])) == events[3:]
    assert client.runs.stream(stream.run_id, last_event_id=events[-1]["id"]).final_run() == stream.final_run()

    # Automations.
    triggered = client.automations.run(
        target=agent["id"], message="Judge this", data={"alert": {"level": 3}}, automation_id=f"nächtlich {word}", trigger_type="schedule",
        ttl_override=100_000, session_id=word, idempotency_key=word,
    )
    assert triggered["trigger"] == {"type": "schedule", "automationId": f"nächtlich {word}"}, triggered
    assert (triggered["status"], triggered["idempotencyKey"], triggered["sessionId"]) == ("completed", word, word), triggered
    unwaited = client.automations.run(target=agent["id"], data={"message": "x"}, wait=False)
    assert client.runs.wait(unwaited["id"], timeout=30)["status"] == "completed"

    # Runs.
    assert client.runs.get(triggered["id"]) == triggered
    assert [each["id"] for each in client.runs.list(automation_id=f"nächtlich {word}")] == [triggered["id"]]
    assert {each["id"] for each in client.runs.list(session_id=word, agent_id=agent["id"], status="completed", limit=1)} == {run["id"], once["id"], triggered["id"]}
    for decision, status in (("approve", "completed"), ("deny", "completed")):
        asks = client.chat(agent_id=books, message=f'Use bookBill with {{"bill": "{word}-{decision}"}}')
        assert asks["status"] == "requires_action" and asks["requiredAction"]["kind"] == "approval", asks
        try:
            parley.raise_for_status(asks)
            raise SystemExit("a waiting run has completed")
        except parley.RunFailedError as error:
            assert error.run is asks
        client.runs.act(asks["id"], decision, tool_call_id=asks["requiredAction"]["toolCallId"])
        assert client.runs.wait(asks["id"])["status"] == status
    waits = client.chat(agent_id=books, message=f'Use bookBill with {{"bill": "{word}-cancel"}}')
    assert client.runs.cancel(waits["id"])["id"] == waits["id"]
    assert client.runs.wait(waits["id"])["status"] == "cancelled"

    # Knowledge.
    path = pathlib.Path(f'böses "Heft" {word}.md')
    path.write_text(f"# Signing\n\nReleases {word} are signed by Ann.\n", encoding="utf-8")
    with open("opened.txt", "w+b") as file:
        file.write(f"Opened {word} and read.".encode())
        file.seek(0)
        documents = [
            client.knowledge.upload(path, metadata={"team": word}),
            client.knowledge.upload(file),
            client.knowledge.upload(io.BytesIO(f"Bytes {word} of a buffer.".encode()), name="buffer.txt", mime_type="text/plain"),
            client.knowledge.upload(f"Bytes {word} alone.".encode(), name="bytes.txt"),
            client.knowledge.upload(content=f"Text {word}.", name="text.md", metadata={"team": word}),
        ]
    assert client.knowledge.upload(str(path))["id"] == documents[0]["id"]  # the same bytes yield the same document
    assert [document["name"] for document in documents] == [path.name, "opened.txt", "buffer.txt", "bytes.txt", "text.md"], documents
    for document in documents:
        ready = client.knowledge.wait(document["id"], timeout=60)
        assert (ready["status"], ready["error"]) == ("ready", None), ready
        assert client.knowledge.get(document["id"]) == ready
    assert ready["metadata"] == {"team": word} and {"buffer.txt"} == {each["name"] for each in client.knowledge.list(q="buffer", status="ready", limit=1)}
    hits = client.knowledge.search(f"who signs releases {word}", limit=3, metadata={"team": word})["data"]  # surface_async.py uploads a similar text
    assert hits[0]["documentId"] == documents[0]["id"] and "Ann" in hits[0]["text"], hits
    asking = client.agents.create(
        name=f"asks {word}", system_prompt="Answer.", tools={"knowledge": {"enabled": True, "documentIds": [documents[0]["id"]]}},
    )
    cited = client.chat(agent_id=asking["id"], message="Who are releases signed by?")["citations"]
    assert (cited[0]["type"], cited[0]["documentId"]) == ("document", documents[0]["id"]), cited
    client.agents.delete(asking["id"])
    only = client.knowledge.search(word, document_ids=[documents[1]["id"], documents[4]["id"]], metadata={"team": word})["data"]
    assert {hit["documentId"] for hit in only} == {documents[4]["id"]}, only
    for document in documents:
        assert client.knowledge.delete(document["id"])["deleted"]
    assert client.knowledge.search(word, metadata={"team": word})["data"] == []
    try:
        client.knowledge.upload(b"\0", name="x" * 300)
        raise SystemExit("a name that is too long was accepted")
    except parley.BadRequestError as error:
        assert error.errors, error
    # Structured output. The client accepts any class that has two methods of Pydantic's models:
    # model_json_schema and model_validate.
    class Lamp:
        def __init__(self, watts: int) -> None:
            self.watts = watts

        @staticmethod
        def model_json_schema() -> dict:
            return schema

        @classmethod
        def model_validate(cls, data: dict) -> "Lamp":
            return cls(data["watts"])

    schema = {"type": "object", "properties": {"watts": {"type": "integer"}}, "required": ["watts"]}
    client.agents.update(agent["id"], model="offline", fallback_models=[])
    assert client.chat.parse(agent_id=agent["id"], message="a lamp of 7 watts", schema=schema) == {"watts": 7}
    lamp = client.automations.parse(target=agent["id"], message="9 watts", schema=Lamp)
    assert client.agents.update(agent["id"], output_schema=schema)["outputSchema"] == schema
    assert client.chat(agent_id=agent["id"], message="11 watts")["output"]["data"] == {"watts": 11}
    assert isinstance(lamp, Lamp) and lamp.watts == 9
    client.agents.update(agent["id"], model="offline/echo")
    try:
        client.chat.parse(agent_id=agent["id"], message="7", schema=Lamp)
        raise SystemExit("an answer that does not match was accepted")
    except parley.RunFailedError as error:
        assert error.run["error"]["code"] == "output_invalid" and error.run["error"]["errors"], error.run
    client.agents.delete(agent["id"])
features.record("`parley-sdk`, Python", "works", "answers", "streams", "stop", "citations", "approvals", "errors", "resume", "structured")
print("all of it")
