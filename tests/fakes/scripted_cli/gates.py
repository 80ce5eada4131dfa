"""Where a CLI stops before its turn: what it prints there, on which stream, and the code that it leaves with.

Without a code it stays, and waits for somebody.
"""

from __future__ import annotations

import time

from .surroundings import Unexpected
from .voice import write

INK = "\n  ERROR  Raw mode is not supported on the current process.stdin, which Ink uses as input stream by default.\n"
GOOGLE = "https://accounts.google.com/o/oauth2/v2/auth?client_id=681255809395&response_type=code"
UPDATE = (
    "\u2728 Update available! 0.166.0 -> 0.167.0\n\n\u203a 1. Update now (runs `npm install -g`)\n  2. Skip\n"
)
TRUST_DIALOG = "Do you trust the files in this folder?\n\n\u276f 1. Yes, proceed\n  2. No, exit\n"
AS_ROOT = "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons\n"

GATES: dict[str, dict[str, tuple[int, str, int | None]]] = {
    "codex": {
        "args": (2, "error: unexpected argument '--json' found\n\nUsage: codex exec [OPTIONS] [PROMPT]\n", 2),
        "login": (1, "Open this link in your browser: https://auth.openai.com/codex/device?code=1\n", None),
        "terminal": (2, "Error: stdin is not a terminal\n", 1),
        "trust": (2, "Not inside a trusted directory and --skip-git-repo-check was not specified.\n", 1),
        "update": (1, UPDATE, None),
    },
    "claude": {
        "args": (2, "error: unknown option '--verbose'\n", 1),
        "code": (1, "Paste code here if prompted > ", None),
        "root": (2, AS_ROOT, 1),
        "terminal": (1, INK, 1),
        "trust": (1, TRUST_DIALOG, None),
    },
    "gemini": {
        "args": (2, "Options:\n  -m, --model\n\nUnknown arguments: output-format, outputFormat\n", 1),
        "code": (2, "Enter the authorization code: ", None),
        "login": (2, f"Please visit the following URL to authorize the application:\n\n{GOOGLE}\n", None),
        "terminal": (2, INK, 1),
        "trust": (2, "Gemini CLI is not running in a trusted directory.\n", 55),
    },
    "opencode": {
        "args": (2, "opencode run [message..]\n\nrun opencode with a message\n", 1),
        "login": (2, "Go to: https://github.com/login/device\n", None),
    },
    "qwen": {
        "args": (2, "Unknown argument: outputFormat\n", 1),
        "login": (
            2,
            "Please visit this URL to authorize: https://chat.qwen.ai/authorize?user_code=1\n",
            None,
        ),
        "terminal": (1, INK, 1),
    },
    "iflow": {
        "login": (
            2,
            "Please visit the following URL to authorize:\nhttps://iflow.cn/oauth?user_code=1\n",
            None,
        ),
        "terminal": (2, INK, 1),
    },
}

DOWNGRADED = {
    "gemini": 'Approval mode overridden to "default" because the current folder is not trusted.\n',
    "codex": "Configured value for `approval_policy` is disallowed by requirements; falling back to OnRequest.",
}
NO_SERVER = {
    "gemini": "Error during discovery for MCP server 'weather': Connection closed\n",
    "codex": "MCP client for `weather` timed out after 10 seconds. Add or adjust `startup_timeout_sec`.",
    "opencode": "ERROR 2026-01-01T00:00:00 +5ms service=mcp key=weather local mcp startup failed\n",
}
"""What is told of troubles that the CLI gets over; claude and qwen tell theirs in the event that opens the turn."""


def stop_at(dialect: str, name: str) -> int:
    """Returns the exit code, if there is one."""
    if name not in GATES[dialect]:
        raise Unexpected(f"unexpected word [[gate:{name}]]: {dialect} does not stop there")
    stream, words, code = GATES[dialect][name]
    write(stream, words)
    while code is None:
        time.sleep(0.05)
    return code
