"""What CLIs print when the session that they are to resume is torn, locked, or ends with a call that nobody answered.

Those of R02 and R04 are what the tested versions said of a store that had been cut, emptied, overwritten or locked;
claude and iflow, which bear it or do not say, stand in with the words of their JSON parser. Those of R03 are the
providers' refusals, in the events by which each CLI passes one on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from tests.harness import Json


@dataclass(frozen=True)
class Told:
    row: str
    engine: str
    stderr: str = ""
    events: tuple[Json, ...] = ()
    code: int = 1

    @property
    def stdout(self) -> str:
        return "".join(json.dumps(event) + "\n" for event in self.events)


NOT_RESUMED = "Error: thread/resume: thread/resume failed: "
UNEXPECTED = "\x1b[91m\x1b[1mError: \x1b[0mUnexpected error\n\n"
CODEX, CLAUDE = "01a1e1cb-7795-7591-a758-2cf61d82cadc", "3cdeef59-8f2d-4945-bb2f-c7a643b69ea6"
GEMINI, QWEN = "d1542d4b-fdc3-47ea-b1ee-5e6f919e0108", "54bc6da4-fc4e-4971-b2a5-f60e81490b0f"
OPENCODE = "ses_e1e3418b0ffeEe0Bhevgv2vLk4"
"""The sessions of the recorded first turns."""
NO_OUTPUT = {
    "error": {"message": "No tool output found for function call call_23.", "type": "invalid_request_error"}
}
NO_RESULT = "messages.4: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1."
UNEQUAL = (
    "Please ensure that the number of function response parts is equal to the number of function call parts."
)
NO_MESSAGES = "An assistant message with 'tool_calls' must be followed by tool messages for each call."
NO_RESPONSE = "The following tool_call_ids did not have response messages: call_1"
SERVER_ERROR = {"message": "Unexpected server error. Check server logs for details.", "ref": "err_0235c441"}

BROKEN = (
    Told(
        "R02",
        "codex",
        f"{NOT_RESUMED}failed to read thread: rollout at /home/rollout-1.jsonl is empty (code -32603)\n",
    ),
    Told(
        "R02",
        "codex",
        f"{NOT_RESUMED}failed to read thread: stream did not contain valid UTF-8 (code -32603)\n",
    ),
    Told("R02", "gemini", "Error resuming session: No previous sessions found for this project.\n", code=42),
    Told(
        "R02",
        "qwen",
        f"No saved session found with ID {QWEN}. Run `qwen --resume` without an ID to choose.\n",
    ),
    Told("R02", "opencode", "\x1b[91m\x1b[1mError: \x1b[0mSession not found\n"),
    Told("R02", "claude", "SyntaxError: Unterminated string in JSON at position 8191\n"),
    Told("R02", "iflow", "Failed to load session: Unexpected end of JSON input\n"),
    Told(
        "R03",
        "codex",
        events=(
            {"type": "thread.started", "thread_id": CODEX},
            {"type": "turn.started"},
            {"type": "turn.failed", "error": {"message": json.dumps(NO_OUTPUT)}},
        ),
    ),
    Told(
        "R03",
        "claude",
        events=(
            {"type": "system", "subtype": "init", "session_id": CLAUDE, "model": "m"},
            {
                "type": "result",
                "subtype": "success",
                "is_error": True,
                "session_id": CLAUDE,
                "result": f"API Error: 400 {NO_RESULT}",
                "api_error_status": 400,
            },
        ),
    ),
    Told(
        "R03",
        "gemini",
        events=(
            {"type": "init", "session_id": GEMINI, "model": "m"},
            {"type": "result", "status": "error", "error": {"type": "Error", "message": UNEQUAL}},
        ),
        code=144,
    ),
    Told(
        "R03",
        "qwen",
        events=(
            {
                "type": "result",
                "subtype": "error_during_execution",
                "is_error": True,
                "session_id": QWEN,
                "error": {"message": f"[API Error: 400 {NO_MESSAGES}]"},
            },
        ),
    ),
    Told(
        "R03",
        "opencode",
        events=(
            {
                "type": "error",
                "sessionID": OPENCODE,
                "error": {"name": "APIError", "data": {"message": NO_RESPONSE, "statusCode": 400}},
            },
        ),
    ),
    Told("R04", "opencode", f"{UNEXPECTED}database is locked\n"),
    Told("R04", "opencode", f"{UNEXPECTED}database disk image is malformed\n"),
    Told("R04", "opencode", f"{UNEXPECTED}file is not a database\n"),
    Told(
        "R04",
        "opencode",
        'level=ERROR run=fcf62aaa message=failed ref=err_0235c441 error="SQLiteError: no such table: message"\n',
        events=(
            {
                "type": "error",
                "sessionID": OPENCODE,
                "error": {"name": "UnknownError", "data": SERVER_ERROR},
            },
        ),
    ),
    Told("R04", "codex", f"{NOT_RESUMED}list_turns is not supported yet (code -32601)\n"),
)
