"""An agent that asks for permissions, and does not always wait for the answers.

Its arguments say what it does: for each prompt a list of steps, as JSON. What it says between two waits is one write,
so that it arrives together. In a text, `{words}` is the prompt and `{first}` what was chosen of the request `first`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

SESSION, HELPER = "session-1", "session-1-helper"
"""Its own, and that of an agent which it has started itself."""
OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
    {"optionId": "other", "name": " Something else "},
]


class Agent:
    def __init__(self) -> None:
        self.unsent = b""
        self.messages = 0
        self.prompts: list[tuple[int, str]] = []
        self.answers: dict[str, str] = {}

    def play(self, steps: list[str]) -> None:
        while not self.prompts:
            self.hear()
        call, words = self.prompts.pop(0)
        for step in steps:
            verb, _, rest = step.partition(" ")
            match verb:
                case "ask":
                    self.ask(rest)
                case "helper-asks":
                    self.ask(rest, session=HELPER)
                case "call":
                    self.send(id=rest, method=rest, params={"sessionId": SESSION, "message": "Which colour?"})
                case "fail-a-tool":
                    self.fail_a_tool(rest)
                case "take-back":
                    self.send(method="$/cancel_request", params={"requestId": rest})
                case "hear":
                    while rest not in self.answers:
                        self.hear()
                case "say":
                    self.say(rest.format(words=words, **self.answers))
                case "done":
                    answer = rest.format(words=words, **self.answers)
                    self.say(json.dumps({"__SKILL_DONE__": True, "answer": answer}))
                case "end":
                    self.send(id=call, result={"stopReason": rest or "end_turn"})
                case "touch":
                    self.flush()
                    Path(rest).touch()
                case "leave":
                    self.flush()
                    os._exit(1)
                case "wait-for":
                    self.flush()
                    while not Path(rest).exists():
                        time.sleep(0.005)
                case _:
                    raise ValueError(step)

    def hear(self) -> None:
        self.flush()
        line = sys.stdin.readline()
        if not line:
            sys.exit()
        match json.loads(line):
            case {"method": "initialize", "id": call}:
                able = {"loadSession": True}
                self.send(id=call, result={"protocolVersion": 1, "agentCapabilities": able})
            case {"method": "session/new" | "session/load", "id": call}:
                self.send(id=call, result={"sessionId": SESSION})
            case {"method": "session/prompt", "id": call, "params": {"prompt": [{"text": words}]}}:
                self.prompts.append((call, words))
            case {"method": "session/cancel"}:
                sys.exit()
            case {"id": call, "result": {"outcome": outcome}}:
                self.answers[call] = outcome.get("optionId", outcome["outcome"])
            case {"id": call, "error": {"code": code}}:
                self.answers[call] = f"error {code}"
            case other:
                raise ValueError(other)

    def ask(self, name: str, session: str = SESSION) -> None:
        call = {"toolCallId": name, "title": name}
        params = {"sessionId": session, "toolCall": call, "options": OPTIONS}
        self.send(id=name, method="session/request_permission", params=params)

    def fail_a_tool(self, words: str) -> None:
        self.messages += 1
        said = [{"type": "content", "content": {"type": "text", "text": words}}]
        call = {"toolCallId": f"call-{self.messages}", "title": "touch", "kind": "edit", "status": "failed"}
        update = {"sessionUpdate": "tool_call", **call, "content": said}
        self.send(method="session/update", params={"sessionId": SESSION, "update": update})

    def say(self, text: str) -> None:
        self.messages += 1
        content = {"messageId": str(self.messages), "content": {"type": "text", "text": text}}
        update = {"sessionUpdate": "agent_message_chunk", **content}
        self.send(method="session/update", params={"sessionId": SESSION, "update": update})

    def send(self, **message: Any) -> None:
        self.unsent += json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"

    def flush(self) -> None:
        while self.unsent:
            self.unsent = self.unsent[os.write(1, self.unsent) :]


if __name__ == "__main__":
    agent = Agent()
    for script in sys.argv[1:]:
        agent.play(json.loads(script))
    while True:
        agent.hear()
