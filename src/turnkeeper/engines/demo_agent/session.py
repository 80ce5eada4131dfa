"""A session on disk: what was said to the agent in each turn, and what it answered."""

# pathlib would cost more than the rest of the start.
# ruff: noqa: PTH103, PTH105, PTH118, PTH123

from __future__ import annotations

import os

from .jsontext import line, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Session:
    def __init__(self, folder: str, session_id: str) -> None:
        self.folder = folder
        self.id = session_id
        self.completed = 0
        self.turns: list[dict[str, Any]] = []
        self.messages = 0  # ids given out so far: no two messages of a session share one
        self.tool_calls = 0

    @classmethod
    def new(cls, folder: str) -> Session:
        return cls(folder, f"demo-{os.urandom(16).hex()}")

    @classmethod
    def find(cls, folder: str, session_id: str) -> Session | None:
        """None when there is no such session, or its file cannot be read: either way it is lost."""
        if not session_id.replace("-", "").isalnum():
            return None
        session = cls(folder, session_id)
        try:
            with open(session.path, encoding="utf-8") as file:
                saved = loads(file.read())
            session.completed = saved["completed"]
            session.turns = saved["turns"]
            session.messages = saved["messages"]
            session.tool_calls = saved["tool_calls"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return session

    @property
    def path(self) -> str:
        return os.path.join(self.folder, f"{self.id}.json")

    def begin(self, prompt: str) -> str:
        """Save that a turn begins, and return its reply; a turn that was cut off keeps the first one."""
        if len(self.turns) == self.completed:
            self.turns.append({"reply": prompt, "said": []})
        self.save()
        reply: str = self.turns[self.completed]["reply"]
        return reply

    def complete(self, said: list[dict[str, str]]) -> None:
        self.turns[self.completed]["said"] = said
        self.completed += 1
        self.save()

    def save(self) -> None:
        os.makedirs(self.folder, exist_ok=True)
        temporary = f"{self.path}.{os.getpid()}.tmp"
        with open(temporary, "wb") as file:
            file.write(
                line(
                    {
                        "completed": self.completed,
                        "turns": self.turns,
                        "messages": self.messages,
                        "tool_calls": self.tool_calls,
                    }
                )
            )
        os.replace(temporary, self.path)

    def next_message_id(self) -> str:
        self.messages += 1
        return f"m{self.messages}"

    def next_call_id(self) -> str:
        self.tool_calls += 1
        return f"t{self.tool_calls}"
