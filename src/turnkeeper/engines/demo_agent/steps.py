"""What a step may be, and what each well-behaved one does; `mishaps.py` has the others."""

# pathlib would cost more than the rest of the start.
# ruff: noqa: PTH103, PTH110, PTH119, PTH120, PTH123

from __future__ import annotations

import os
import sys

from . import mishaps, streams
from .jsontext import dumps, line
from .script import invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .player import Beginning, Turn

LOOK_EVERY_SEC = 0.005
FIRST_LINE = 200  # characters of it; a file may be one long line
ASK_KEYS = ("kind", "prompt", "options", "ui_hints", "context", "default_decision_policy", "requested_schema")


def say(turn: Turn, text: str) -> None:
    turn.say(turn.text(text))


def stream(turn: Turn, pieces: list[Any], every_sec: float = 0.05) -> None:
    message_id = turn.session.next_message_id()
    texts = [turn.text(piece) for piece in pieces]
    for number, text in enumerate(texts):
        if number:
            turn.voice.wait(every_sec)
        turn.voice.delta(message_id, text)
    turn.say("".join(texts), message_id=message_id)


def think(turn: Turn, text: str) -> None:
    turn.voice.reasoning(turn.text(text))


def tool(turn: Turn, call: dict[str, Any]) -> None:
    call = turn.filled(call)
    call_id, status = turn.session.next_call_id(), call.get("status", "completed")
    turn.voice.tool(call_id, call["name"], call.get("input", {}), call.get("output", ""), status)


def permission(turn: Turn, asked: Any) -> None:
    from .permission import Permission

    asked = turn.filled(asked if isinstance(asked, list) else [asked])
    requests = [Permission(turn.session.next_call_id(), request) for request in asked]
    turn.voice.permissions(requests)
    turn.permission = ",".join(request.outcome for request in requests)


def usage(turn: Turn, counted: dict[str, int]) -> None:
    turn.counted = counted


def ask(turn: Turn, question: dict[str, Any]) -> None:
    question = turn.filled(question)
    rows = ["interaction_id: 1"]
    for key in ASK_KEYS:
        if key in question:
            rows += _yaml(key, question[key])
    block = "\n".join(("<ASK_USER_YAML>", *rows, "</ASK_USER_YAML>"))
    turn.say(f"{question['prompt']}\n\n{block}")


def _yaml(key: str, value: Any) -> list[str]:
    """Rows of YAML: a key with its JSON value, or with one JSON value for each entry of a list."""
    if isinstance(value, list) and value:
        return [f"{key}:", *(f"  - {_printable(dumps(entry))}" for entry in value)]
    return [f"{key}: {_printable(dumps(value))}"]


def _printable(text: str) -> str:
    """JSON is YAML, except that YAML wants the characters escaped that have no shape."""
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in text)


def result(turn: Turn, fields: dict[str, Any], done: bool = True, fenced: bool = False) -> None:
    marker = {"__SKILL_DONE__": True} if done else {}
    text = dumps(marker | turn.filled(fields))
    turn.say(f"Here is the result.\n\n```json\n{text}\n```" if fenced else text)


def read_file(turn: Turn, path: str) -> None:
    path = _inside(turn, path)
    lines = words = 0
    first_line = ""
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        for row in file:
            lines += 1
            words += len(row.split())
            first_line = first_line or row.lstrip("# \t").strip()[:FIRST_LINE]
    turn.file = {"name": os.path.basename(path), "lines": lines, "words": words, "first_line": first_line}


def write_file(turn: Turn, file: dict[str, str]) -> None:
    path = _inside(turn, file["path"])
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", errors="backslashreplace") as out:
        out.write(turn.text(file["text"]))


def _inside(turn: Turn, path: str) -> str:
    home = os.path.realpath(turn.cwd)
    found = os.path.realpath(turn.path(path))
    if os.path.commonpath((home, found)) != home:
        raise invalid(f"files are read and written inside the workspace only, and {found} is not")
    return found


def sleep(turn: Turn, seconds: float) -> None:
    turn.voice.wait(seconds)


def wait_for(turn: Turn, path: str) -> None:
    path = turn.path(path)
    while not os.path.exists(path):
        turn.voice.wait(LOOK_EVERY_SEC)


def touch(turn: Turn, path: str) -> None:
    with open(turn.path(path), "ab"):
        pass


def record(turn: Turn, path: str) -> None:
    entry = {
        "pid": os.getpid(),
        "turn": turn.index,
        "reply": turn.reply,
        "prompt": turn.prompt,
        "argv": sys.argv[1:],
    }
    with open(turn.path(path), "ab", buffering=0) as file:
        file.write(line(entry))


class Step:
    """A step of the script: who plays it, the value it takes, and its options.

    A value is described by a type, by `True` or a word (nothing else is accepted), or by its keys; a key with
    `?` may be left out. `float` means any number from 0 on, `object` anything, `[x]` a list of x that is not
    empty, `(x, y)` one or the other.
    """

    def __init__(self, play: Callable[..., None], takes: Any, **options: Any) -> None:
        self.play = play
        self.takes = takes
        self.options = options


STATUS = ("in_progress", "completed", "failed")
TOKENS = {"input_tokens?": int, "output_tokens?": int}
OPTION = {
    "optionId": str,
    "name": str,
    "kind": ("allow_once", "allow_always", "reject_once", "reject_always"),
}
PERMISSION = {"tool": str, "title?": str, "input?": dict, "options?": [OPTION], "allowed_for_sec?": float}
TO = ("stdout", "stderr")
FLOOD = {"bytes": int, "line_bytes?": int}
BYTES = ({"text": str}, {"base64": str})
CHILD = {"seconds": float, "pid_file": str, "scrub_env?": bool}
QUESTION = {
    "prompt": str,
    "kind?": str,
    "options?": list,
    "ui_hints?": dict,
    "context?": object,
    "default_decision_policy?": str,
    "requested_schema?": dict,
}

STEPS = {
    "say": Step(say, str),
    "stream": Step(stream, list, every_sec=float),
    "think": Step(think, str),
    "tool": Step(tool, {"name": str, "input?": dict, "output?": str, "status?": STATUS}),
    "permission": Step(permission, (PERMISSION, [PERMISSION])),
    "usage": Step(usage, TOKENS),
    "ask": Step(ask, QUESTION),
    "result": Step(result, dict, done=bool, fenced=bool),
    "read_file": Step(read_file, str),
    "write_file": Step(write_file, {"path": str, "text": str}),
    "sleep": Step(sleep, float),
    "wait_for": Step(wait_for, str),
    "touch": Step(touch, str),
    "record": Step(record, str),
    "exit": Step(mishaps.exit_now, int),
    "crash": Step(mishaps.crash, str),
    "hang": Step(mishaps.hang, True),
    "ignore_signals": Step(mishaps.ignore_signals, True),
    "linger": Step(mishaps.linger, float),
    "setsid_child": Step(mishaps.setsid_child, CHILD, scrub_env=bool),
    "flood": Step(mishaps.flood, FLOOD, to=TO, every_sec=float),
    "stderr": Step(mishaps.stderr, str),
    "raw": Step(mishaps.raw, str),
    "fail": Step(mishaps.fail, {"code": str, "message": str}),
    "no_terminal": Step(mishaps.no_terminal, True),
    "work": Step(mishaps.work, float),
    "link": Step(mishaps.link, {"path": str, "to": str}),
    "write": Step(streams.write, BYTES, to=TO, times=int),
    "event": Step(streams.event, (dict, [dict]), spread=bool),
    "tell_session": Step(streams.tell_session, True),
    "pieces": Step(streams.pieces, int),
    "line_end": Step(streams.line_end, str),
    "hold": Step(streams.hold, True),
    "close": Step(streams.close, TO),
}
BEFORE = frozenset(
    (
        *(
            "sleep",
            "wait_for",
            "touch",
            "link",
            "work",
            "exit",
            "crash",
            "hang",
            "ignore_signals",
            "setsid_child",
        ),
        *("flood", "stderr", "raw", "write", "event", "pieces", "line_end", "hold", "close"),
    )
)
"""What a process can do that has not begun to speak."""


def check(turns: list[list[Any]]) -> None:
    for turn, steps in enumerate(turns, 1):
        for number, step in enumerate(steps, 1):
            fault = _fault(step)
            if fault:
                raise invalid(f"turn {turn}, step {number}: {fault}")


def check_before(steps: list[Any]) -> None:
    for number, step in enumerate(steps, 1):
        fault = _fault(step) or _too_early(step)
        if fault:
            raise invalid(f"before, step {number}: {fault}")


def _too_early(step: dict[str, Any]) -> str:
    (name,) = (name for name in step if name in STEPS)
    return "" if name in BEFORE else f"{name!r} needs a turn"


def _fault(step: object) -> str:
    if not isinstance(step, dict):
        return f"{dumps(step)} is not an object"
    actions = [name for name in step if name in STEPS]
    if len(actions) != 1:
        return f"one action is wanted, not {', '.join(actions) or 'none'}: {dumps(step)}"
    action = STEPS[actions[0]]
    for name, value in step.items():
        if name not in STEPS and name not in action.options:
            return f"{actions[0]!r} has no option {name!r}"
        if not _fits(value, action.options.get(name, action.takes)):
            return f"{name!r} cannot be {dumps(value)}"
    return ""


def _fits(value: Any, kind: Any) -> bool:
    if kind is True:
        return value is True
    if isinstance(kind, str):
        return bool(value == kind)
    if isinstance(kind, tuple):
        return any(_fits(value, one) for one in kind)
    if isinstance(kind, list):
        return isinstance(value, list) and bool(value) and all(_fits(entry, kind[0]) for entry in value)
    if isinstance(kind, dict):
        return isinstance(value, dict) and _has_keys(value, kind)
    if kind is bool or kind is object:
        return isinstance(value, kind)
    if kind is float or kind is int:
        numbers = (int, float) if kind is float else int
        return isinstance(value, numbers) and not isinstance(value, bool) and value >= 0
    return isinstance(value, kind)


def _has_keys(value: dict[str, Any], kinds: Mapping[str, Any]) -> bool:
    known = {name.rstrip("?"): kind for name, kind in kinds.items()}
    needed = [name for name in kinds if not name.endswith("?")]
    return all(name in value for name in needed) and all(
        name in known and _fits(entry, known[name]) for name, entry in value.items()
    )


def play(turn: Beginning, step: dict[str, Any]) -> None:
    """Play a step that `check` has seen."""
    options = {name: value for name, value in step.items() if name not in STEPS}
    (name,) = step.keys() - options.keys()
    try:
        STEPS[name].play(turn, step[name], **options)
    except OSError as error:
        raise invalid(f"{name!r} could not be played: {error}") from error
