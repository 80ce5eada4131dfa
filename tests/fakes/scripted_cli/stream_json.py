"""What claude and qwen have in common: lines of `--output-format stream-json`, and one result that closes the turn."""

from __future__ import annotations

from .voice import Voice, uuid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class StreamJson(Voice):
    SHELL = ""
    """What the tool is called that runs a command."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._said = ""
        self.has_tool = False

    def line(self, **event: Any) -> None:
        super().line(**event, session_id=self.session, uuid=uuid())

    @property
    def servers(self) -> list[dict[str, str]]:
        return [{"name": "weather", "status": "failed"}] if self.lacks_server else []

    def mutter(self, words: str) -> None:
        """It is told in the event that opens the turn."""

    def blocks(self, *content: Any) -> None:
        """Of the assistant."""
        raise NotImplementedError

    def say(self, text: str) -> None:
        self._said = text
        self.blocks({"type": "text", "text": text})

    def think(self, text: str) -> None:
        self.blocks({"type": "thinking", "thinking": text, "signature": ""})

    def begin_tool(self, command: str) -> None:
        self.has_tool = True
        given = {"command": command}
        self.blocks({"type": "tool_use", "id": self._call, "name": self.SHELL, "input": given})

    def end_tool(self, output: str, *, is_error: bool = False) -> None:
        self.has_tool = False
        found = {"type": "tool_result", "tool_use_id": self._call, "is_error": is_error, "content": output}
        message = {"role": "user", "content": [found]}
        self.line(type="user", message=message, parent_tool_use_id=None)

    def tool(self, command: str, output: str) -> None:
        self.begin_tool(command)
        self.end_tool(output.rstrip("\n"))
        super().tool(command, output)

    @property
    def _call(self) -> str:
        return f"call_{self.calls}"

    def delegate(self, words: str) -> None:
        """A sub-agent says something, and uses a tool."""
        self.blocks({"type": "tool_use", "id": "call_agent", "name": "agent", "input": {"prompt": "look"}})
        self._of_agent("user", {"type": "text", "text": words})
        self._of_agent("assistant", {"type": "text", "text": words})
        found = {"type": "tool_result", "tool_use_id": "call_agent", "is_error": False, "content": words}
        self.line(type="user", message={"role": "user", "content": [found]}, parent_tool_use_id=None)

    def _of_agent(self, role: str, block: Any) -> None:
        message = {"id": uuid(), "role": role, "content": [block]}
        self.line(type=role, message=message, parent_tool_use_id="call_agent")

    def result(self, **fields: Any) -> None:
        self.line(type="result", **fields, permission_denials=[])
