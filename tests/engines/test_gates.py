"""Words by which a CLI says that it waits for somebody, and words that only look like it."""

from __future__ import annotations

import pytest

from turnkeeper.core.errors import Code, Warn
from turnkeeper.core.run import Failure
from turnkeeper.engines import gates
from turnkeeper.engines.lines import Line


def line(text: str) -> Line:
    return Line(text.encode(), 0, len(text.encode()), truncated=False)


def asked(*lines: str) -> Failure | None:
    questions = gates.Questions()
    return next((found for text in lines if (found := questions.hear(line(text)))), None)


@pytest.mark.failure("G02", "G08")
@pytest.mark.parametrize(
    ("code", "lines"),
    [
        (Code.ENGINE_NOT_READY, ["Update available! 1.0 -> 1.1", "", "  1. Update now", "  2. Skip"]),
        (Code.ENGINE_NOT_READY, ["A new version is available. Update now? [Y/n]"]),
        (Code.ENGINE_NOT_READY, ["A new version is available: 1.1", "Do you want to install it? (y/n) "]),
        (Code.ENGINE_NOT_READY, ["\x1b[1mUpdate available\x1b[0m", "Press enter to continue"]),
        (Code.ENGINE_TRUST_REQUIRED, ["Do you trust the files in this folder?"]),
        (Code.ENGINE_TRUST_REQUIRED, ["Do you trust the contents of this directory?"]),
        (Code.ENGINE_TRUST_REQUIRED, ["│ \u276f Do you want to trust this folder?            │"]),
        (Code.ENGINE_NOT_READY, ["Update available! Run `brew upgrade`", "1. Update now (runs `brew`)"]),
        (Code.ENGINE_NOT_READY, ["Update available", "Press enter, or don't: it's up to you"]),
        (Code.ENGINE_AUTH_REQUIRED, ["Enter the authorization code: "]),
    ],
)
def test_a_question_that_somebody_would_have_to_answer(code: Code, lines: list[str]) -> None:
    found = asked(*lines)
    assert found is not None
    assert found.code is code
    assert found.evidence


@pytest.mark.parametrize(
    "lines",
    [
        ["A new version is available!"],
        [
            "Gemini CLI update available! 0.1 -> 0.2",
            "Installed with npm. Attempting to automatically update now...",
        ],
        ["Update available", *["noise"] * 9, "Press enter to continue"],
        ["Shall I go on? (y/n)"],
        ["Press any key to continue"],
        ["I trust that this folder is the right one."],
        ["version 1.0 is available (yes)"],
        ['patch failed: "Do you trust the files in this folder?" is not in the file'],
        ['"Do you trust the files in this folder?"'],
        ["'Do you trust the files in this folder?'"],
        ["+Do you trust the files in this folder?"],
        ["the docs ask: do you trust the files in this folder?"],
        ["Update available", 'print("Press enter")'],
        ["Update available", "{ask: Install it? [y/N]"],
    ],
)
def test_what_is_no_question_about_the_start(lines: list[str]) -> None:
    assert asked(*lines) is None


def test_a_line_that_is_not_over_is_only_looked_at() -> None:
    questions = gates.Questions()
    assert questions.hear(line("Update available! 1.0 -> 1.1")) is None
    assert questions.would_be(line("Install it? [y/N] "))
    assert not questions.would_be(line("Loading "))
    assert questions.would_be(line("Install it? [y/N] "))


@pytest.mark.failure("S10", "G09")
@pytest.mark.parametrize(
    ("code", "words"),
    [
        (Code.ENGINE_NOT_READY, "--yes cannot be used with root/sudo privileges for security reasons"),
        (Code.ENGINE_NOT_READY, "Error: refusing to run as root"),
        (Code.ENGINE_NOT_READY, "a line before\nThis program must not be run as root.\na line behind"),
        (Code.ENGINE_TTY_REQUIRED, "ERROR Raw mode is not supported on the current process.stdin"),
        (Code.ENGINE_TTY_REQUIRED, "TypeError: process.stdin.setRawMode is not a function"),
        (Code.ENGINE_TTY_REQUIRED, "Error: stdin is not a terminal"),
        (Code.ENGINE_TTY_REQUIRED, "the input device is not a TTY"),
        (Code.ENGINE_TTY_REQUIRED, "sh: can't open /dev/tty: No such device or address"),
        (None, "Warning: Basic terminal detected (TERM=dumb). Visual rendering will be limited."),
        (None, "the root of the workspace cannot be read"),
        (None, "Error: the model refused"),
    ],
)
def test_a_refusal_to_begin(code: Code | None, words: str) -> None:
    found = gates.refused(words)
    assert (found and found.code) == code
    if found:
        assert any(each in found.message for each in words.splitlines())


@pytest.mark.failure("G03", "G10")
@pytest.mark.parametrize(
    ("code", "told", "words"),
    [
        (
            Warn.APPROVAL_MODE_DOWNGRADED,
            "default",
            'Approval mode overridden to "default" because of the folder.',
        ),
        (
            Warn.APPROVAL_MODE_DOWNGRADED,
            "policy",
            "Configured value for `approval_policy` is disallowed by requirements",
        ),
        (Warn.APPROVAL_MODE_DOWNGRADED, "yolo", "yolo mode is disabled by your administrator"),
        (Warn.TOOL_SERVER_FAILED, "server weather is", "MCP client for `weather` failed to start: timed out"),
        (
            Warn.TOOL_SERVER_FAILED,
            "server weather is",
            "Error during discovery for MCP server 'weather': closed",
        ),
        (Warn.TOOL_SERVER_FAILED, "server @acme/x is", "MCP server @acme/x disconnected"),
        (Warn.TOOL_SERVER_FAILED, "server w-1 is", "ERROR +5ms service=mcp key=w-1 local mcp startup failed"),
        (None, "", "YOLO mode is enabled. All tool calls will be automatically approved."),
        (None, "", "Connecting to MCP server 'weather' ..."),
        (None, "", "approval of the plan failed"),
        (None, "", "Loaded MCP server list; 0 failed"),
        (None, "", "MCP servers: 3 connected, no error"),
        (Warn.TOOL_SERVER_FAILED, "server list is", "Loaded MCP server list; 10 failed"),
    ],
)
def test_a_remark_has_a_name(code: Warn | None, told: str, words: str) -> None:
    found = gates.heard(line(words))
    assert (found and found.code) == code
    assert told in (found.message if found else "")


@pytest.mark.failure("G06", "G07", "G11")
@pytest.mark.parametrize(
    ("hint", "words"),
    [
        ("keychain", ["Unlocking the login keyring over D-Bus"]),
        ("keychain", ["node", "dbus-launch"]),
        ("`Connecting to MCP server 'weather' ...`", ["hello", "Connecting to MCP server 'weather' ..."]),
        ("updates off", ["A new version is available."]),
        ("first start", ["Welcome to Demo!", "Choose the text style"]),
        ("`Ok to proceed? (y)`", ["Need to install:", "Ok to proceed? (y) "]),
        ("otherwise", ["reading the workspace"]),
    ],
)
def test_a_hint(hint: str, words: list[str]) -> None:
    assert hint in gates.hint(words, "otherwise")


@pytest.mark.parametrize(
    "word", ["update available ", "trust the ", "MCP server ", "cannot as ", "(y", "service=mcp "]
)
def test_hostile_words_take_no_time(word: str) -> None:
    """Bounded by the length of a line that is looked at: this would take minutes otherwise."""
    long = word * 200_000
    assert asked(long) is None
    gates.heard(line(long))
    gates.refused(long)
    gates.hint([long])
