"""Reads a run's events with one of the client's methods, through a proxy that interrupts streams, and prints them."""

import asyncio
import json
import os
import sys

from parley import AsyncParley, Parley

way = sys.argv[1]
asked = {"agent_id": os.environ["TALKER"], "message": os.environ["MESSAGE"]}


def printed(events, run):
    text = "".join(event["data"]["text"] for event in events if event["event"] == "message.delta")
    print(json.dumps({"ids": [event["id"] for event in events], "events": events, "text": text, "run": run}))


def sync():
    with Parley() as client:
        if way == "sync":
            stream = client.chat.stream(**asked)
            return printed(list(stream), stream.final_run())
        stream = client.chat.stream(**asked)
        print(json.dumps({"text": "".join(stream.text()), "run": stream.final_run()}))


async def asynchronous():
    async with AsyncParley() as client:
        stream = client.chat.stream(**asked)
        if way == "async":
            return printed([event async for event in stream], await stream.final_run())
        print(json.dumps({"text": "".join([text async for text in stream.text()]), "run": await stream.final_run()}))


if way.startswith("async"):
    asyncio.run(asynchronous())
else:
    sync()
