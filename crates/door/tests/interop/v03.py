"""The official A2A SDK client of version 0.3 against a session.

Argument: the session's URL. A bearer token may stand in MUR_TOKEN. Every expectation is an assertion.
"""

import asyncio
import os
import sys
from uuid import uuid4

import httpx

from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientJSONRPCError
from a2a.types import Message, MessageSendConfiguration, Part, Role, TaskIdParams, TaskQueryParams, TaskState, TextPart


def message(text, **more):
    return Message(role=Role.user, message_id=str(uuid4()), parts=[Part(root=TextPart(text=text))], **more)


async def collect(stream):
    return [event async for event in stream]


async def fails(code, awaitable):
    try:
        await awaitable
    except A2AClientJSONRPCError as error:
        assert error.error.code == code, error
        return
    raise AssertionError(f"no {code}")


async def main(url):
    headers = {"Authorization": f"Bearer {os.environ['MUR_TOKEN']}"} if "MUR_TOKEN" in os.environ else {}
    async with httpx.AsyncClient(headers=headers, timeout=30) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        assert (card.protocol_version, card.url, card.preferred_transport) == ("0.3", url, "JSONRPC"), card
        assert [skill.id for skill in card.skills] == ["house-style"], card
        assert (card.security_schemes is not None) == bool(headers), card
        streaming = ClientFactory(ClientConfig(httpx_client=http, streaming=True)).create(card)
        plain = ClientFactory(ClientConfig(httpx_client=http, streaming=False)).create(card)
        polling = ClientFactory(ClientConfig(httpx_client=http, streaming=False, polling=True)).create(card)

        [(task, _)] = await collect(plain.send_message(message("say all done")))
        assert task.status.state == TaskState.completed, task
        assert task.artifacts[0].parts[0].root.text == "all done", task
        got = await plain.get_task(TaskQueryParams(id=task.id, history_length=5))
        assert got == task, (got, task)

        events = await collect(streaming.send_message(message("call echo\nsay a b")))
        kinds = [type(update).__name__ for _, update in events]
        assert kinds[0] == "NoneType" and kinds[-1] == "TaskStatusUpdateEvent", kinds
        task, last = events[-1]
        assert last.final and task.status.state == TaskState.completed, last
        [reply] = task.artifacts
        assert "".join(part.root.text for part in reply.parts) == "a b", reply

        [(open_, _)] = await collect(polling.send_message(message("wait g")))
        assert open_.status.state in (TaskState.submitted, TaskState.working), open_
        back = streaming.resubscribe(TaskIdParams(id=open_.id))
        first, _ = await anext(back)
        assert first.id == open_.id, first
        canceled = await plain.cancel_task(TaskIdParams(id=open_.id))
        assert canceled.status.state == TaskState.canceled, canceled
        rest = await collect(back)
        assert rest[-1][1].final and rest[-1][1].status.state == TaskState.canceled, rest
        await fails(-32002, plain.cancel_task(TaskIdParams(id=open_.id)))

        asked = (await collect(streaming.send_message(message("call ask\nsay thanks"))))[-1][0]
        assert asked.status.state == TaskState.input_required, asked
        assert asked.status.message.parts[0].root.text == "which one?", asked
        answer = message("the blue one", task_id=asked.id, context_id=asked.context_id)
        [(answered, _)] = await collect(plain.send_message(answer))
        assert answered.status.state == TaskState.completed, answered

        await fails(-32001, plain.get_task(TaskQueryParams(id="nope")))
        waits = MessageSendConfiguration(blocking=True, accepted_output_modes=["text/plain"], history_length=0)
        [(short, _)] = await collect(plain.send_message(message("say x"), configuration=waits))
        assert short.history in (None, []), short
    print("ok")


asyncio.run(main(*sys.argv[1:]))
