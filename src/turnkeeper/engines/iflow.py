"""iFlow: words on stdout, plain as they are; session and usage on stderr, in a block after the last of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from turnkeeper.core.errors import Code
from turnkeeper.core.run import Failure
from turnkeeper.core.turn import Ended, TextDelta, TurnEvent
from turnkeeper.engines.acp import Manners
from turnkeeper.engines.base import Dialect, Heard, Login, TurnPlan
from turnkeeper.engines.cli import BOTH, CliEngine, option
from turnkeeper.engines.dialect import CliDialect, SpreadObject, session_of, usage
from turnkeeper.engines.lines import Line, plain
from turnkeeper.engines.objects import read_object
from turnkeeper.engines.process import Exit

SETTINGS = {"selectedAuthType": "openai-compatible", "disableAutoUpdate": True}
"""The service of its maker is gone; key and address of another come by the environment."""

_NOTICE = re.compile(r"Model \S+ does not support thinking mode")
_LOADER = re.compile(r"\[(?:runtime|loader)\] ")
_OPENS, _CLOSES = "<Execution Info>", "</Execution Info>"
# Node warns whenever it likes: a line that no indented JSON could have is not of the block.
_OF_JSON = re.compile(
    r'\s*(?:"[^"]*": ?)?(?:[{}\[\]]{1,2}|"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null),?\s*'
)


class IflowEngine(CliEngine):
    name = "iflow"
    profiles = BOTH
    skills_dir = ".iflow/skills"
    install = (
        "iFlow is no longer offered on npm: set engines.iflow.command "
        "(or TURNKEEPER_ENGINES__IFLOW__COMMAND) to one that is installed"
    )
    keys = ("IFLOW_API_KEY",)
    addresses = ("IFLOW_BASE_URL", "IFLOW_MODEL_NAME", "IFLOW_SELECTED_AUTH_TYPE")
    own_logins = ("apiKey", "baseUrl")
    settings_file = ".iflow/settings.json"

    def words(self, plan: TurnPlan) -> Sequence[str]:
        model, session = option("-m", plan.model), option("--resume", session_of(plan))
        return ("--yolo", "--thinking", *model, *session)

    def resident_words(self, plan: TurnPlan) -> Sequence[str]:
        return ("--experimental-acp", "--yolo", "--thinking", *option("-m", plan.model))

    def manners(self, plan: TurnPlan) -> Manners:
        # Whatever session it is asked for it says that it has loaded.
        return Manners(loads=False)

    def settings(self, login: Login) -> Mapping[str, Any]:
        return SETTINGS

    def headless(self, plan: TurnPlan) -> Dialect:
        return IflowDialect(plan)


class IflowDialect(CliDialect):
    def __init__(self, plan: TurnPlan) -> None:
        super().__init__(plan)
        self._blank_lines = 0
        self._in_block = False
        self._info = SpreadObject()
        self._has_info = False
        self._is_replaced = False

    def hear(self, line: Line) -> Heard | None:
        """Every line is the assistant's, but for a notice, and what its loader prints before the first word."""
        if line.truncated:
            return None
        text = plain(line.data)
        if _NOTICE.fullmatch(text.strip()) or (not self._has_spoken and _LOADER.match(text)):
            return Heard(())
        if not text.strip():
            self._blank_lines += 1
            return Heard(())
        # A line's newline goes before it: blank lines at either end are no part of a message.
        opening = "\n" * (self._blank_lines + 1) if self._has_spoken else ""
        self._has_spoken, self._is_understood, self._blank_lines = True, True, 0
        return Heard([TextDelta(opening + text)])

    def hear_stderr(self, line: Line) -> Heard | None:
        text = plain(line.data).strip()
        if text.startswith(_OPENS) and text.endswith(_CLOSES):
            inside = text.removeprefix(_OPENS).removesuffix(_CLOSES).encode()
            return self._hear_info(read_object(Line(inside, line.offset, len(inside), line.truncated)))
        if text in (_OPENS, _CLOSES):
            self._in_block = text == _OPENS
            self._info.drop()
            return Heard(())
        if not self._in_block:
            return super().hear_stderr(line)
        info = self._info.take(line) if _OF_JSON.fullmatch(plain(line.data)) else None
        if info is None:
            return Heard(())
        self._in_block = False
        return self._hear_info(info)

    def asks(self, stream: str, start: bytes) -> bool:
        """Never on stdout: every line there is the assistant's, also the one that is not over yet."""
        return stream == "stderr" and super().asks(stream, start)

    def finish(self, ended: Exit, stderr: str) -> Sequence[TurnEvent]:
        if self._is_replaced:
            gone = f"iflow does not know session {self._resumed} and began another"
            return [Ended(Failure(Code.SESSION_LOST, gone))]
        if self._has_info:
            # Closed by its own word. A signal after it is ours, for lingering; a bad exit speaks for itself.
            return [Ended()] if ended.code in (0, None) else []
        return super().finish(ended, stderr)

    def _hear_info(self, info: dict[str, Any] | None) -> Heard | None:
        if info is None:
            return None
        session = info.get("session-id")
        if not isinstance(session, str):
            return None
        self._has_info = True
        tokens = info.get("tokenUsage")
        counts = _usage(tokens) if isinstance(tokens, dict) else []
        if self._session is None and self._resumed not in (None, session):
            # An unknown session is replaced without a word. The new one is not ours to go on with.
            self._is_replaced = True
            return Heard(counts, is_last=True)
        return Heard([*self.opened(session), *counts], is_last=True)


def _usage(tokens: Mapping[str, Any]) -> list[TurnEvent]:
    return usage(
        input_tokens=tokens.get("input"),
        output_tokens=tokens.get("output"),
    )
