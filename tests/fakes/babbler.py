"""An agent that tells its key in every way it can: headless as codex does, or as a resident with `acp`.

Where a text can come in pieces, the border is in the middle of the key.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

KEY = os.environ.get("PARROT_API_KEY") or os.environ.get("OPENAI_API_KEY", "")
ANSWER = json.dumps({"__SKILL_DONE__": True, "answer": f"the key is {KEY}"})
ASK = (
    f"I have {KEY}; shall I use it?\n<ASK_USER_YAML>\ninteraction_id: 1\nprompt: use {json.dumps(KEY)[1:-1]}\n"
    f"options:\n- {json.dumps(KEY)}\ncontext: {json.dumps({'key': KEY})}\n</ASK_USER_YAML>"
)


def say(data: bytes, stream: int = 1) -> None:
    """In two pieces, cut inside the key if it is there, and read one by one."""
    at = data.find(b"sk-live")
    for piece in (data[: at + 9], data[at + 9 :]) if at >= 0 else (data,):
        os.write(stream, piece)
        time.sleep(0.02)


def tell(**message: Any) -> None:
    say(json.dumps(message).encode() + b"\n")


# As codex


def item(number: int, kind: str, **fields: Any) -> None:
    tell(type="item.completed", item={"id": f"item_{number}", "type": kind, **fields})


def headless() -> None:
    prompt = sys.stdin.read()
    say(f"warning: using {KEY}\n".encode(), 2)
    say(f"a banner with {KEY}\n\x1b[31m{KEY}\x1b[0m\n".encode())
    tell(type="thread.started", thread_id="babble-1")
    tell(type="turn.started")
    tell(type="something.new", text=KEY, inside=json.dumps({"key": KEY}))
    item(1, "reasoning", text=f"my key is {KEY}")
    item(2, "command_execution", command=f"curl -H {KEY}", aggregated_output=f"{KEY}\n{KEY}", exit_code=0)
    item(
        3,
        "mcp_tool_call",
        server=KEY,
        tool=KEY,
        arguments={"key": KEY, KEY: [KEY]},
        result=json.dumps({"k": KEY}),
    )
    item(4, "todo_list", items=[{"text": KEY, "completed": False}])
    item(5, "error", message=f"{KEY} was not accepted")
    item(6, "agent_message", text=f"By the way: {KEY}")
    if "[[fail]]" in prompt:
        say(f"fatal: {KEY}".encode(), 2)
        tell(type="turn.failed", error={"message": f"the provider refused {KEY}"})
        sys.exit(1)
    item(7, "agent_message", text=ANSWER if "go on" in prompt else ASK)
    usage = {"input_tokens": 1, "cached_input_tokens": 0, "output_tokens": 1, "note": KEY}
    tell(type="turn.completed", usage=usage)
    say(KEY.encode())


# As a resident


def pieces(text: str) -> Iterator[str]:
    """Each becomes a line of its own, and none of them has the whole key."""
    at = text.find("sk-live")
    while at >= 0:
        yield text[: at + 5]
        text = text[at + 5 :]
        at = text.find("sk-live")
    yield text


def update(told: str, **fields: Any) -> None:
    inside = {"sessionId": "s-1", "update": {"sessionUpdate": told, **fields}}
    tell(jsonrpc="2.0", method="session/update", params=inside)


def chunks(kind: str, text: str) -> None:
    for piece in pieces(text):
        update(kind, content={"type": "text", "text": piece})


def turn(prompt: str) -> None:
    say(f"debug: {KEY}\n".encode(), 2)
    chunks("agent_thought_chunk", f"first {KEY}, then {KEY}")
    call = {"toolCallId": "c-1", "title": f"use {KEY}", "kind": "execute", "rawInput": {"key": KEY}}
    update("tool_call", status="pending", **call)
    options = [{"optionId": "yes", "name": f"Yes, {KEY}", "kind": "allow_once"}]
    options.append({"optionId": "no", "name": "No", "kind": "reject_once"})
    asked = {"sessionId": "s-1", "toolCall": call, "options": options}
    tell(jsonrpc="2.0", id=900, method="session/request_permission", params=asked)
    sys.stdin.readline()
    content = [{"type": "content", "content": {"type": "text", "text": KEY}}]
    update("tool_call_update", toolCallId="c-1", status="completed", rawOutput={"out": KEY}, content=content)
    chunks("agent_message_chunk", ANSWER if "go on" in prompt else f"I have {KEY}; shall I use it?")


def resident() -> None:
    for line in iter(sys.stdin.readline, ""):
        asked = json.loads(line)
        match asked.get("method"):
            case "initialize":
                result: Any = {
                    "protocolVersion": 1,
                    "agentCapabilities": {"loadSession": True},
                    "_meta": {"key": KEY},
                }
            case "session/new":
                result = {"sessionId": "s-1"}
            case "session/prompt":
                turn(json.dumps(asked["params"]["prompt"]))
                result = {"stopReason": "end_turn", "_meta": {"key": KEY}}
            case _:
                result = {}
        if "id" in asked:
            tell(jsonrpc="2.0", id=asked["id"], result=result)


if __name__ == "__main__":
    if "--version" in sys.argv:
        sys.stdout.write("codex-cli 0.166.0\n")
    elif "acp" in sys.argv[1:]:
        resident()
    else:
        headless()
