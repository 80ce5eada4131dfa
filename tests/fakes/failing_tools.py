"""A tool that fails, or comes back well, as each CLI tells it: the events of one call."""

from __future__ import annotations

from tests.harness import Json


def codex(number: int, words: str, *, fails: bool) -> list[Json]:
    ended = {"exit_code": int(fails), "status": "failed" if fails else "completed"}
    item = {
        "id": f"item_{number}",
        "type": "command_execution",
        "command": "touch a",
        "aggregated_output": words,
    }
    return [{"type": "item.completed", "item": item | ended}]


def claude(number: int, words: str, *, fails: bool) -> list[Json]:
    call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {"command": "touch a"}}
    answer = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": words, "is_error": fails}
    return [
        {"type": "assistant", "message": {"id": f"msg_{number}", "content": [call]}},
        {"type": "user", "message": {"content": [answer]}},
    ]


def gemini(number: int, words: str, *, fails: bool) -> list[Json]:
    name, call = {"tool_name": "run_shell_command"}, {"tool_id": f"call_{number}"}
    return [
        {"type": "tool_use", "parameters": {"command": "touch a"}, **name, **call},
        {"type": "tool_result", "status": "error" if fails else "success", "output": words, **call},
    ]


def opencode(number: int, words: str, *, fails: bool) -> list[Json]:
    state = {"status": "error", "error": words} if fails else {"status": "completed", "output": words}
    part = {
        "id": f"prt_{number}",
        "tool": "bash",
        "callID": f"call_{number}",
        "state": {"input": {}, **state},
    }
    return [{"type": "tool_use", "sessionID": "ses_1", "part": part}]


CALLS = {"codex": codex, "claude": claude, "gemini": gemini, "opencode": opencode, "qwen": claude}
NAMES = {
    "codex": "command_execution",
    "claude": "Bash",
    "gemini": "run_shell_command",
    "opencode": "bash",
    "qwen": "Bash",
}
