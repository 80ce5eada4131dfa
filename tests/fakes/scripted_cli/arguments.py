"""The command lines that were agreed on, word by word and in this order; any other is refused."""

# ruff: noqa: PTH109

from __future__ import annotations

import os

from .surroundings import Unexpected

CLAUDE_WITHOUT = "AskUserQuestion,EnterPlanMode,ExitPlanMode,CronCreate,Monitor,ScheduleWakeup,Workflow"
NO_SERVERS = ("--allowed-mcp-server-names", "none")
QWEN_WITHOUT = "ask_user_question,enter_plan_mode,exit_plan_mode,cron_create,loop_wakeup,monitor"
"""Tools that wait for a person, and those by which a turn would go on by itself."""


class Call:
    """What the command line asks for."""

    def __init__(self, dialect: str, arguments: list[str]) -> None:
        self.dialect = dialect
        self.arguments = arguments
        self.model: str | None = None
        self.session: str | None = None
        self._rest = list(arguments)
        READERS[dialect](self)
        if self._rest:
            raise Unexpected(f"unexpected argument {self._rest[0]!r}")

    def word(self, *expected: str) -> None:
        for each in expected:
            if self._rest[:1] != [each]:
                found = repr(self._rest[0]) if self._rest else "nothing"
                raise Unexpected(f"unexpected argument {found}: {each!r} comes here")
            self._rest.pop(0)

    def maybe(self, word: str) -> bool:
        if self._rest[:1] != [word]:
            return False
        self._rest.pop(0)
        return True

    def value(self) -> str:
        if not self._rest or self._rest[0].startswith("-"):
            raise Unexpected(f"unexpected argument {self._rest[:1]}: a value comes here")
        return self._rest.pop(0)

    def option(self, name: str) -> str | None:
        return self.value() if self.maybe(name) else None


def _codex(call: Call) -> None:
    call.word("exec")
    resumes = call.maybe("resume")
    call.word("--json", "--yolo", "--skip-git-repo-check")
    call.model = call.option("-m")
    if resumes:
        call.session = call.value()
    else:
        call.word("-C")
        folder = call.value()
        if folder != os.getcwd():
            raise Unexpected(f"unexpected argument -C {folder}: the cwd is {os.getcwd()}")
    call.word("-")


def _claude(call: Call) -> None:
    call.word("-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions")
    call.word("--setting-sources", "user", "--disallowedTools", CLAUDE_WITHOUT)
    call.model = call.option("--model")
    call.session = call.option("--resume")


def _gemini(call: Call) -> None:
    call.word("--yolo", "-o", "stream-json", *NO_SERVERS)
    call.model = call.option("-m")
    call.session = call.option("--resume")


def _iflow(call: Call) -> None:
    call.word("--yolo", "--thinking")
    call.model = call.option("-m")
    call.session = call.option("--resume")


def _opencode(call: Call) -> None:
    call.word("run", "--format", "json", "--auto")
    call.model = call.option("-m")
    call.session = call.option("--session")
    if call.session is None:
        call.word("--title")
        call.value()


def _qwen(call: Call) -> None:
    call.word("--yolo", "--output-format", "stream-json", *NO_SERVERS, "--exclude-tools", QWEN_WITHOUT)
    if call.maybe("--append-system-prompt") and "can reply" not in call.value():
        raise Unexpected("unexpected argument --append-system-prompt: it says nothing of a reply")
    call.model = call.option("-m")
    call.session = call.option("--resume")


READERS = {
    "codex": _codex,
    "claude": _claude,
    "gemini": _gemini,
    "opencode": _opencode,
    "qwen": _qwen,
    "iflow": _iflow,
}
