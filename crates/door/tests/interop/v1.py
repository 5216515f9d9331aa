"""The official A2A SDK client of version 1 against a session.

Arguments: the session's URL, and what the client speaks: JSONRPC, HTTP+JSON, or `0.3` for its own way with
agents of that version. A bearer token may stand in MUR_TOKEN. Every expectation is an assertion.
"""

import asyncio
import os
import sys

import httpx
from google.protobuf.json_format import MessageToDict

from a2a.client.card_resolver import A2ACardResolver, parse_agent_card
from a2a.client.client import ClientCallContext, ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.client.service_parameters import ServiceParametersFactory, with_a2a_extensions
from a2a.helpers import new_text_message
from a2a.types import a2a_pb2 as t
from a2a.utils.errors import (
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
    VersionNotSupportedError,
)

DONE, CANCELED, WORKING = "TASK_STATE_COMPLETED", "TASK_STATE_CANCELED", "TASK_STATE_WORKING"
TOOL_RESULTS = "https://docs.murmur.nexus/a2a/tool-results/v1"


def request(text, **configuration):
    message = new_text_message(text)
    message.role = t.Role.ROLE_USER
    made = t.SendMessageRequest(message=message)
    if configuration:
        made.configuration.CopyFrom(t.SendMessageConfiguration(**configuration))
    return made


async def collect(stream):
    return [MessageToDict(event) async for event in stream]


async def fails(error, awaitable):
    try:
        await awaitable
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


async def main(url, speaks):
    headers = {"Authorization": f"Bearer {os.environ['MUR_TOKEN']}"} if "MUR_TOKEN" in os.environ else {}
    http = httpx.AsyncClient(headers=headers, timeout=30)
    card = await A2ACardResolver(http, url).get_agent_card()
    assert card.name == "fake" and card.version == "1.2.3" and card.capabilities.streaming, card
    assert [(i.protocol_binding, i.protocol_version) for i in card.supported_interfaces] == [
        ("JSONRPC", "1.0"),
        ("JSONRPC", "0.3"),
        ("HTTP+JSON", "1.0"),
    ], card
    assert [skill.id for skill in card.skills] == ["house-style"], card
    assert (card.security_schemes["bearer"].http_auth_security_scheme.scheme == "bearer") == bool(headers), card
    binding = "JSONRPC" if speaks == "0.3" else speaks
    if speaks == "0.3":
        raw = (await http.get(f"{url}/.well-known/agent-card.json")).json()
        del raw["supportedInterfaces"]
        card = parse_agent_card(raw)

    def client(streaming):
        config = ClientConfig(
            streaming=streaming,
            httpx_client=http,
            supported_protocol_bindings=[binding],
            use_client_preference=True,
        )
        return ClientFactory(config).create(card)

    streaming, plain = client(True), client(False)

    # Send, and wait for the end.
    [sent] = await collect(plain.send_message(request("say all done")))
    task = sent["task"]
    assert task["status"]["state"] == DONE, sent
    assert task["artifacts"][0]["parts"] == [{"text": "all done"}], sent
    assert task["history"][0]["parts"] == [{"text": "say all done"}], sent
    got = MessageToDict(await plain.get_task(t.GetTaskRequest(id=task["id"], history_length=5)))
    assert got == task, (got, task)

    # Stream: the task first, the whole reply last, closed after the end.
    events = await collect(streaming.send_message(request("call echo\nsay a b")))
    assert "task" in events[0], events
    states = [event["statusUpdate"]["status"]["state"] for event in events if "statusUpdate" in event]
    assert states == [WORKING, DONE], events
    replies = [event["artifactUpdate"] for event in events if "artifactUpdate" in event]
    assert [reply["artifact"]["parts"][0]["text"] for reply in replies[-3:]] == ["a ", "b", "a b"], events
    assert replies[-1].get("lastChunk") and not replies[-1].get("append"), events

    # A client that leaves its stream; the task goes on and can be canceled.
    stream = streaming.send_message(request("wait g"))
    async for event in stream:
        seen = MessageToDict(event)
        if "task" in seen:
            left = seen["task"]["id"]
        if seen.get("statusUpdate", {}).get("status", {}).get("state") == WORKING:
            break
    await stream.aclose()
    canceled = MessageToDict(await plain.cancel_task(t.CancelTaskRequest(id=left)))
    assert canceled["status"]["state"] == CANCELED, canceled
    await fails(TaskNotCancelableError, plain.cancel_task(t.CancelTaskRequest(id=left)))

    # A client that is back on its stream.
    [open_] = await collect(plain.send_message(request("wait h", return_immediately=True)))
    back = streaming.subscribe(t.SubscribeToTaskRequest(id=open_["task"]["id"]))
    first = MessageToDict(await anext(back))
    assert first["task"]["id"] == open_["task"]["id"], first
    await plain.cancel_task(t.CancelTaskRequest(id=open_["task"]["id"]))
    rest = await collect(back)
    assert rest[-1]["statusUpdate"]["status"]["state"] == CANCELED, rest

    # A question and its answer.
    [asked] = await collect(plain.send_message(request("call ask\nsay thanks")))
    assert asked["task"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED", asked
    answer = request("the blue one")
    answer.message.task_id = asked["task"]["id"]
    answer.message.context_id = asked["task"]["contextId"]
    if speaks == "0.3":
        # Its way with agents of 0.3 does not wait by itself.
        await collect(streaming.send_message(answer))
        answered = MessageToDict(await plain.get_task(t.GetTaskRequest(id=asked["task"]["id"])))
    else:
        answered = (await collect(plain.send_message(answer)))[0]["task"]
    assert answered["status"]["state"] == DONE, answered

    await fails(TaskNotFoundError, plain.get_task(t.GetTaskRequest(id="nope")))
    await fails(TaskNotFoundError, plain.cancel_task(t.CancelTaskRequest(id="nope")))
    if speaks != "0.3":
        first_page = MessageToDict(await plain.list_tasks(t.ListTasksRequest(page_size=2)))
        assert (first_page["totalSize"], first_page["pageSize"]) == (5, 2), first_page
        assert first_page["tasks"][0]["id"] == asked["task"]["id"], first_page
        token = first_page["nextPageToken"]
        second_page = MessageToDict(await plain.list_tasks(t.ListTasksRequest(page_size=2, page_token=token)))
        assert len({task["id"] for page in (first_page, second_page) for task in page["tasks"]}) == 4
        done = t.TaskState.TASK_STATE_COMPLETED
        listed = MessageToDict(await plain.list_tasks(t.ListTasksRequest(status=done, include_artifacts=True)))
        assert [len(task["artifacts"]) for task in listed["tasks"]] == [1, 1, 1], listed
        await fails(UnsupportedOperationError, collect(streaming.subscribe(t.SubscribeToTaskRequest(id=left))))
        # The wrong version.
        context = ClientCallContext(service_parameters={"A2A-Version": "7.0"})
        await fails(VersionNotSupportedError, plain.get_task(t.GetTaskRequest(id="nope"), context=context))
        # Our extension.
        parameters = ServiceParametersFactory.create([with_a2a_extensions([TOOL_RESULTS])])
        context = ClientCallContext(service_parameters=parameters)
        [with_tools] = await collect(plain.send_message(request("call echo\nsay done"), context=context))
        tool, reply = with_tools["task"]["artifacts"]
        assert tool["metadata"]["fence_source"] == "tool:echo", with_tools
        assert tool["parts"][0]["text"].startswith("<untrusted-content source=tool:echo>"), with_tools
        assert reply["parts"] == [{"text": "done"}], with_tools
    await http.aclose()
    print("ok")


asyncio.run(main(*sys.argv[1:]))
