"""A page as a reader plays it: the commands it shows, each with the output it shows.

- A fence tagged `sh` is typed into a terminal. The fence tagged `text` or `json` that follows it is its output.
- A fence tagged `console` is both: `$ ` opens a command, `> ` a line that is typed when the command asks for it.
- A comment in front of a fence says how it is played:

      <!-- not run: it opens a browser -->   nobody types it
      <!-- stays open -->                    typed into a terminal of its own, where it runs on until the end
      <!-- until Ctrl-C -->                  interrupted as soon as it has printed what is shown
      <!-- again until shown -->             typed again until it prints that: tests are quicker than readers
      <!-- ends with 3 -->                   its exit code, if that is not 0

What may differ in the output is told in `shown.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

_FENCE = re.compile(
    r"(?:^<!-- (?P<mark>not run: [^>]+|stays open|until Ctrl-C|again until shown|ends with \d+) -->\n)?"
    r"^```(?P<tag>\w+)\n(?P<body>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_MARKS = re.compile(r"^<!-- (?:not run|stays open|until|again|ends with)[^\n]*-->$", re.MULTILINE)
COMMANDS, CONSOLE = "sh", "console"
OUTPUTS = ("text", "json")
COMMAND, TYPED = "$ ", "> "
ASKED = ">\n"
"""What is left of a typed line: a terminal without echo shows the prompt alone."""


class How(StrEnum):
    RUN = "run"
    SKIP = "not run"
    STAY = "stays open"
    INTERRUPT = "until Ctrl-C"
    REPEAT = "again until shown"


@dataclass(frozen=True, slots=True)
class Step:
    line: int
    script: str
    shown: str | None
    """None: nothing is shown, and anything may be printed."""
    how: How = How.RUN
    code: int = 0
    typed: tuple[str, ...] = ()
    """Lines for a command that asks. In `shown` each of them is `ASKED`."""


def steps(page: Path) -> list[Step]:
    text = page.read_text(encoding="utf-8")
    found = list(_steps(text))
    attached = sum(1 for fence in _FENCE.finditer(text) if fence["mark"])
    assert attached == len(_MARKS.findall(text)), (
        f"a comment of {page.name} stands before no fence, or is misspelled"
    )
    return found


def _steps(text: str) -> Iterator[Step]:
    fences = list(_FENCE.finditer(text))
    for fence, following in zip(fences, [*fences[1:], None], strict=True):
        line = text.count("\n", 0, fence.start()) + 1
        how, code = _how(fence["mark"])
        if fence["tag"] == COMMANDS:
            is_shown = (
                following is not None
                and following["tag"] in OUTPUTS
                and not text[fence.end() : following.start()].strip()
            )
            yield Step(line, fence["body"], following["body"] if following and is_shown else None, how, code)
        elif fence["tag"] == CONSOLE:
            yield _console(line, fence["body"], how, code)


def _how(mark: str | None) -> tuple[How, int]:
    if mark is None:
        return How.RUN, 0
    if mark.startswith("ends with "):
        return How.RUN, int(mark.removeprefix("ends with "))
    return How(mark.partition(":")[0]), 0


def _console(line: int, body: str, how: How, code: int) -> Step:
    command, *rest = body.splitlines(keepends=True)
    assert command.startswith(COMMAND), f"line {line}: a console begins with a command"
    typed = tuple(each.removeprefix(TYPED).rstrip("\n") for each in rest if each.startswith(TYPED))
    shown = "".join(ASKED if each.startswith(TYPED) else each for each in rest)
    return Step(line, command.removeprefix(COMMAND), shown, how, code, typed)
