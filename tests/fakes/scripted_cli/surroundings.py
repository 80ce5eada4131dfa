"""What a turn may find around it: its own home next to its workspace, a closed stdin, and no secret of the service's.

Anything else is said on stderr, written to a file `unexpected` and ends the program with exit code 64, so that no
test can pass by luck.
"""

# pathlib would cost more than the rest of the start.
# ruff: noqa: PTH109, PTH112, PTH118, PTH119, PTH120, PTH123

from __future__ import annotations

import os
import sys

WRONG_USE = 64
UNEXPECTED = "unexpected"

PROXIES = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}
PASSED_ON = {
    *("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
    *PROXIES,
    *map(str.lower, PROXIES),
}
PRIVATE = {"HOME", "TMPDIR", "TERM", "NO_COLOR", "TURNKEEPER_RUN"}
ANSWERS = {
    "DEBIAN_FRONTEND": "noninteractive",
    "GIT_TERMINAL_PROMPT": "0",
    "PIP_NO_INPUT": "1",
    "npm_config_yes": "false",
}
"""What the tools of an agent are told instead of being asked."""
SWITCHES: dict[str, set[str]] = {
    "codex": {"CODEX_HOME"},
    "claude": {
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "IS_SANDBOX",
    },
    "gemini": {"GEMINI_CLI_NO_RELAUNCH", "GEMINI_CLI_TRUST_WORKSPACE", "NO_BROWSER"},
    "iflow": set(),
    "opencode": {
        "OPENCODE_DISABLE_AUTOUPDATE",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS",
        "OPENCODE_DISABLE_LSP_DOWNLOAD",
        "OPENCODE_DISABLE_MODELS_FETCH",
        "OPENCODE_DISABLE_PROJECT_CONFIG",
        "OPENCODE_LOG_LEVEL",
        "OPENCODE_PRINT_LOGS",
    },
    "qwen": {
        "QWEN_CODE_NO_RELAUNCH",
        "QWEN_CODE_SUPPRESS_YOLO_WARNING",
        "QWEN_CODE_SYSTEM_SETTINGS_PATH",
    },
}
KEYS = {
    "codex": {"CODEX_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"},
    "claude": {
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_DEFAULT_HAIKU_MODEL",
        "ANTHROPIC_DEFAULT_OPUS_MODEL",
        "ANTHROPIC_DEFAULT_SONNET_MODEL",
        "ANTHROPIC_MODEL",
        "CLAUDE_CODE_OAUTH_TOKEN",
    },
    "gemini": {
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "GOOGLE_CLOUD_LOCATION",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_GEMINI_BASE_URL",
        "GOOGLE_VERTEX_BASE_URL",
    },
    "iflow": {"IFLOW_API_KEY", "IFLOW_BASE_URL", "IFLOW_MODEL_NAME", "IFLOW_SELECTED_AUTH_TYPE"},
    "opencode": {
        "ANTHROPIC_API_KEY",
        "DEEPSEEK_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_GENERATIVE_AI_API_KEY",
        "GROQ_API_KEY",
        "MISTRAL_API_KEY",
        "OPENAI_API_KEY",
        "OPENCODE_API_KEY",
        "OPENROUTER_API_KEY",
        "XAI_API_KEY",
    },
    "qwen": {"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"},
}
"""What an operator may have set for this engine; another one's key is as unexpected as any secret."""
LOGINS = {
    "codex": "CODEX_API_KEY",
    "claude": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "opencode": "OPENCODE_API_KEY",
    "qwen": "OPENAI_API_KEY",
    "iflow": "IFLOW_API_KEY",
}
KEY = "a-key-for-tests-only"


class Unexpected(Exception):
    """We were told, given or shown something that the real CLI is never meant to meet."""


def check(dialect: str) -> str:
    """The home of this run; raises when it, the workspace or the environment is not as agreed."""
    home, workspace = os.environ.get("HOME", ""), os.getcwd()
    run = os.environ.get("TURNKEEPER_RUN", "").split("/")
    if len(run) != 3:
        raise Unexpected(f"unexpected mark TURNKEEPER_RUN={'/'.join(run)!r}")
    if os.path.basename(workspace) != "workspace" or os.path.basename(os.path.dirname(workspace)) != run[1]:
        raise Unexpected(f"unexpected cwd {workspace!r}: not the workspace of run {run[1]}")
    if home != os.path.join(os.path.dirname(workspace), "home") or not os.path.isdir(home):
        raise Unexpected(f"unexpected HOME {home!r}: not the private home of run {run[1]}")
    strangers = sorted(
        os.environ.keys() - PASSED_ON - PRIVATE - ANSWERS.keys() - SWITCHES[dialect] - KEYS[dialect]
    )
    if strangers:
        raise Unexpected(f"unexpected environment variable {strangers[0]}")
    unanswered = [name for name in ANSWERS if os.environ.get(name) != ANSWERS[name]]
    if unanswered:
        raise Unexpected(f"unexpected environment: {unanswered[0]} does not say {ANSWERS[unanswered[0]]!r}")
    if os.environ.get(LOGINS[dialect]) != KEY:
        raise Unexpected(f"unexpected login: {LOGINS[dialect]} is not the key of {dialect}")
    return home


def prompt() -> str:
    """To the end of stdin: whoever leaves it open is left waiting, as by the real CLIs."""
    data = sys.stdin.buffer.read()
    if not data.strip():
        raise Unexpected("unexpected end of stdin: there is no prompt")
    return data.decode()


def refuse(why: Unexpected) -> int:
    """Noted where a test looks for it: in the run's home, else where we were started."""
    home = os.path.join(os.path.dirname(os.getcwd()), "home")
    folder = home if os.path.isdir(home) else os.getcwd()
    with open(os.path.join(folder, UNEXPECTED), "a") as file:
        file.write(f"{why}\n")
    os.write(2, f"error: {why}\n".encode("utf-8", "backslashreplace"))
    return WRONG_USE
