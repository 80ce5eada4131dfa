"""An agent that prints what it must not, cut in two at every byte: headless as codex does, or as a resident with `acp`.

What it prints is the secret that it was granted, and a key that it reads from a file. It writes the second part only
when somebody has taken the first out of the pipe: each cut is a border between two reads.
"""

import fcntl
import json
import os
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

GRANTED = os.environ.get("PLANTED_TOKEN", "")
FOUND = (
    Path(sys.argv[1]).read_text(encoding="utf-8") if len(sys.argv) > 1 and Path(sys.argv[1]).exists() else ""
)
ANSWER = {"__SKILL_DONE__": True, "answer": f"{GRANTED} and {FOUND}"}
CHUNK = 256 * 1024
"""Of a file that is served, as large as the pieces it is read in."""


def write(data: bytes, stream: int = 1) -> None:
    """Returns when the reader has all of it."""
    while data:
        data = data[os.write(stream, data) :]
    while int.from_bytes(fcntl.ioctl(stream, termios.FIONREAD, b"\0" * 4), sys.byteorder):
        time.sleep(0.0002)


def cut(line: bytes, secret: bytes, stream: int = 1) -> None:
    """Once for each border inside the secret, and right before and after it."""
    at = line.index(secret)
    for border in range(at, at + len(secret) + 1):
        write(line[:border], stream)
        write(line[border:], stream)


def lines(secret: str) -> Iterator[tuple[bytes, bytes]]:
    """What is said with it, in each way that JSON can be written; and how the secret stands there."""
    said: list[dict[str, Any]] = [
        {"id": "item_1", "type": "agent_message", "text": f"I say {secret}."},
        {
            "id": "item_2",
            "type": "command_execution",
            "command": "env",
            "aggregated_output": f"A={secret}\nB",
        },
    ]
    for item in said:
        for is_ascii in (True, False):
            line = json.dumps({"type": "item.completed", "item": item}, ensure_ascii=is_ascii)
            yield f"{line}\n".encode(), json.dumps(secret, ensure_ascii=is_ascii)[1:-1].encode()
        line = json.dumps({"type": "item.completed", "item": item}).replace("/", "\\/")
        yield f"{line}\n".encode(), json.dumps(secret)[1:-1].replace("/", "\\/").encode()
    twice = json.dumps(json.dumps(secret))[1:-1]
    yield f'{{"type": "something.new", "inside": "{twice}"}}\n'.encode(), twice.encode()


def files(secret: str) -> None:
    name = quote(secret, safe="") if "/" in secret else secret
    Path(f"with-{name}.txt").write_text(f"{secret}\n{'x' * CHUNK}", encoding="utf-8")
    size = len(secret.encode())
    for shift in range(0, size + 1, 3):
        border = Path(f"border-{len(secret)}-{shift}.txt")
        border.write_text(f"{'x' * (CHUNK - size + shift - 1)} {secret} end", encoding="utf-8")
    link = Path(f"a-link-{len(secret)}")
    if not link.is_symlink():
        link.symlink_to(f"/nowhere/{name}")


def headless() -> None:
    prompt = sys.stdin.read()
    write(b'{"type": "thread.started", "thread_id": "planted-1"}\n{"type": "turn.started"}\n')
    for secret in (GRANTED, FOUND):
        for line, form in lines(secret):
            cut(line, form)
        plain = secret.encode()
        cut(b"banner: " + plain + b"\n", plain)
        cut(b"warning: " + plain + b"\n", plain, 2)
        files(secret)
    Path("heard.txt").write_text(prompt, encoding="utf-8")
    text = json.dumps(ANSWER) if "go on" in prompt else f"Shall I use {GRANTED} or {FOUND}?"
    item = {"id": "item_9", "type": "agent_message", "text": text}
    write(json.dumps({"type": "item.completed", "item": item}).encode() + b"\n")
    write(b'{"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}}\n')


def tell(**message: Any) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def chunk(kind: str, text: str) -> None:
    update = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
    tell(method="session/update", params={"sessionId": "s-1", "update": update})


def turn() -> None:
    for secret in (GRANTED, FOUND):
        for kind in ("agent_thought_chunk", "agent_message_chunk"):
            for border in range(len(secret) + 1):
                chunk(kind, f"{border}: {secret[:border]}")
                chunk(kind, f"{secret[border:]}\n")
    text = f"\n{json.dumps(ANSWER)}"
    for start in range(0, len(text), 7):
        chunk("agent_message_chunk", text[start : start + 7])


def ask() -> None:
    """May a tool be called? Each letter of the secret is an escape: only who reads the line finds it."""
    for secret in (GRANTED, FOUND):
        words = f"curl -H {secret}"
        call = {"toolCallId": "t", "title": words, "rawInput": {"command": [words], secret: 1}}
        options = [
            {"optionId": "yes", "name": f"Allow {secret}", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]
        params = {"sessionId": "s-1", "toolCall": call, "options": options}
        told = json.dumps(
            {"jsonrpc": "2.0", "id": "asked", "method": "session/request_permission", "params": params}
        )
        spelled = "".join(f"\\u{ord(sign):04x}" for sign in secret)
        write(told.replace(json.dumps(secret)[1:-1], spelled).encode() + b"\n")
        while json.loads(sys.stdin.readline()).get("id") != "asked":
            pass


def fail() -> None:
    for secret in (GRANTED, FOUND):
        write(f"cannot go on with {secret}\n".encode(), 2)
        write(f"no JSON: {secret}\n".encode())
    sys.exit(3)


def resident() -> None:
    for line in iter(sys.stdin.readline, ""):
        asked = json.loads(line)
        result: Any = {}
        match asked.get("method"):
            case "initialize":
                result = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
            case "session/new":
                result = {"sessionId": "s-1"}
            case "session/prompt":
                if "fails" in sys.argv:
                    fail()
                if "asks" in sys.argv:
                    ask()
                turn()
                result = {"stopReason": "end_turn"}
        if "id" in asked:
            tell(id=asked["id"], result=result)


if __name__ == "__main__":
    if "--version" in sys.argv:
        sys.stdout.write("codex-cli 0.166.0\n")
    elif "acp" in sys.argv[1:]:
        resident()
    else:
        headless()
