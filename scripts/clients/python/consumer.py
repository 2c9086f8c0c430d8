"""A program that uses the client. A type checker checks it; it never runs."""

from typing import assert_type

import parley
from parley import AsyncParley, Parley
from parley.types import Agent, Budget, CompletedRun, Document, Hook, Run, RunEvent, RunStatus, SessionWithMessages


def sync(client: Parley) -> str | None:
    agent = client.agents.create(name="a", system_prompt="b", tools={"webSearch": {"enabled": True}})
    assert_type(agent, Agent)
    for listed in client.agents.list(q="a"):
        assert_type(listed, Agent)
    run = client.chat(agent_id=agent["id"], message="x", session_id="s")
    assert_type(run, Run)
    status: RunStatus = run["status"]
    if run["error"] is not None:
        return run["error"]["message"]
    with client.chat.stream(agent_id=agent["id"], message=status) as stream:
        for event in stream:
            assert_type(event, RunEvent)
            if event["event"] == "message.delta":
                assert_type(event["data"]["text"], str)
            elif event["event"] == "tool.started":
                print(event["data"]["toolCall"]["name"])
            elif event["event"] == "run.completed":
                assert_type(event["data"]["run"], Run)
    assert_type(client.sessions.get("s", agent_id=agent["id"]), SessionWithMessages)
    assert_type(client.files.download("file_x"), bytes)
    assert_type(client.hooks.list(limit=5).data, list[Hook])
    assert_type(client.knowledge.upload(b"x", name="x.md"), Document)
    assert_type(client.knowledge.search("x")["data"][0]["score"], float)
    try:
        completed = parley.raise_for_status(client.automations.run(target=agent["id"], message="x"))
        assert_type(completed, CompletedRun)
        assert_type(completed["message"], str)
    except parley.RunFailedError as error:
        assert_type(error.run, Run)
    except parley.WaitEndedError as error:
        assert_type(error.run_id, str | None)
    except parley.APIError as error:
        print(error.status, [each["field"] for each in error.errors])
    return run["message"]


async def asynchronous(client: AsyncParley) -> None:
    agent = await client.agents.create(name="a", system_prompt="b")
    assert_type(agent, Agent)
    async for listed in client.agents.list(limit=5):
        assert_type(listed, Agent)
    page = await client.agents.list()
    assert_type(page.data, list[Agent])
    assert_type(await client.chat(agent_id=agent["id"], message="x"), Run)
    async with client.chat.stream(agent_id=agent["id"], message="x") as stream:
        async for text in stream.text():
            assert_type(text, str)
    assert_type(await client.runs.wait("run_x", timeout=5), Run)
    assert_type(await client.budgets.update("bud_x", limit=5), Budget)


async def wrong(client: Parley, other: AsyncParley) -> None:
    client.chat(agent="x", message="x")  # type: ignore[call-arg]
    client.agents.create(name=1, system_prompt="b")  # type: ignore[arg-type]
    client.runs.list(status="done")  # type: ignore[arg-type]
    await other.agents.get(1)  # type: ignore[arg-type]
    await other.automations.run(message="x")  # type: ignore[call-arg]
