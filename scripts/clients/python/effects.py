"""Makes calls through a proxy that drops the first response to each call. The retry attaches to the existing run."""

import asyncio
import json
import os

import features
from parley import AsyncParley, Parley

agent = os.environ["BOOKS"]


def message(bill):
    return f'Use bookBill with {{"bill": "{bill}"}}'


def sync():
    with Parley() as client:
        yield client.automations.run(target=agent, message=message("automation"), automation_id="lost")
        yield client.automations.run(target=agent, message=message("keyed"), idempotency_key="python-keyed")
        yield client.chat(agent_id=agent, message=message("chat"))
        yield client.chat.stream(agent_id=agent, message=message("stream")).final_run()


async def asynchronous():
    async with AsyncParley() as client:
        return await asyncio.gather(
            client.automations.run(target=agent, message=message("async-automation")),
            client.chat(agent_id=agent, message=message("async-chat")),
            client.chat.stream(agent_id=agent, message=message("async-stream")).final_run(),
        )


print(json.dumps([*sync(), *asyncio.run(asynchronous())]))
features.record("`parley-sdk`, Python", "works", "retries")
