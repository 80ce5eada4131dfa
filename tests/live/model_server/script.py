"""Which reply the words of a conversation pick.

The conversation alone decides, so a retry, a side request or a resumed session needs nothing to be remembered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .replies import Call, Fail, Reply, Say
from .requests import Json, Line, Request

QUESTION = "Which colour should I use? Please answer with one word."
DONE = {"__SKILL_DONE__": True}
ANSWER = {"answer": "42"}
"""What the skill `answer` of the tests may put out; its schema allows no other field."""
RESULT = json.dumps(DONE | ANSWER)
SHELLS = ("exec_command", "shell_command", "run_shell_command", "Bash", "bash")


def choose(request: Request, forced: str | None = None) -> tuple[str, Reply]:
    """The rule that applies, and its reply. A forced marker counts instead of those in the user's texts."""
    if request.schema and not request.tools:
        # A side request: gemini chooses a model in this way, and would repeat it for minutes if it got prose.
        return "schema", Say(json.dumps(_smallest(request.schema)))
    text, results = _newest(request.conversation, forced)
    found = MARKER.findall(text)
    if not found:
        return "default", Say("ok")
    rule, argument = found[-1]
    try:
        return rule, RULES[rule](Scene(_unquoted(argument), request.tools, results))
    except (TypeError, ValueError) as why:
        return rule, Fail("400", f"bad argument of [[{rule}]]: {why}")


@dataclass(frozen=True)
class Scene:
    argument: str
    tools: Mapping[str, Json]
    results: list[str]
    """What tools have said since the marker."""


def _newest(conversation: Iterable[Line], forced: str | None) -> tuple[str, list[str]]:
    """The newest text of the user that has a marker, and the results of tools after it."""
    newest, results = "", list[str]()
    for role, text in conversation:
        if role == "user" and MARKER.search(forced or text):
            newest, results = forced or text, []
        elif role == "tool":
            results.append(text)
    return newest, results


def _unquoted(argument: str) -> str:
    """A prompt shows the job's input as JSON, and there each quote of the argument has got a backslash."""
    if '\\"' in argument:
        try:
            return str(json.loads(f'"{argument}"'))
        except ValueError:
            pass  # it is JSON itself, with a quote in one of its strings
    return argument


def _smallest(schema: Json) -> Any:
    """A value that fits, with no more in it than it must have."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema["type"].lower()
    if kind == "object":
        return {name: _smallest(schema["properties"][name]) for name in schema.get("required", ())}
    least = schema.get("minimum", 1)
    return {"string": "scripted", "integer": least, "number": least, "boolean": False, "array": []}.get(kind)


def _object(scene: Scene) -> Json:
    return dict(json.loads(scene.argument)) if scene.argument else ANSWER


BEYOND = {"sandbox_permissions": "require_escalated", "justification": "it writes a file"}
"""By which a model asks for more than its sandbox allows, where its shell has one."""


def _run(scene: Scene, command: str, then: str | None = None, **more: str) -> Reply:
    """Calls the shell, whatever this CLI calls it; once it has answered, says the rest."""
    if scene.results:
        return Say(then or f"The tool said: {scene.results[-1][-400:]}")
    for name in SHELLS:
        if name in scene.tools:
            schema = scene.tools[name]
            words = "cmd" if "cmd" in schema["properties"] else "command"
            known = {key: value for key, value in more.items() if key in schema["properties"]}
            return Call(name, _smallest(schema) | known | {words: command})
    return Say("I was offered no shell.")


def _long(size: int) -> str:
    """Not the same again and again: that some CLIs take for a model that has lost its way."""
    return "-".join(f"word{number}" for number in range(size // 5))[:size]


def _told(results: list[str]) -> str:
    return json.dumps(DONE | {"answer": "".join(results[-1:])[-400:]})


def _fail(scene: Scene) -> Fail:
    if scene.argument not in ("quota", "model", "context"):
        raise ValueError(f"no failure is called {scene.argument!r}")
    return Fail(scene.argument)


# Gemini's shell refuses $(..) and backticks, claude's and qwen's a plain `sleep`.
RULES: dict[str, Callable[[Scene], Reply]] = {
    "ask": lambda _: Say(QUESTION),
    "say": lambda scene: Say(scene.argument),
    "long": lambda scene: Say(_long(int(scene.argument))),
    "done": lambda scene: Say(json.dumps(DONE | _object(scene))),
    "object": lambda scene: Say(json.dumps(_object(scene))),
    "tool": lambda scene: _run(scene, "echo tool-ran-42", RESULT),
    "echo": lambda scene: _run(scene, f"echo '{RESULT}'", "I ran the tool. Shall I go on?"),
    "shell": lambda scene: _run(scene, scene.argument),
    "tell": lambda scene: _run(scene, scene.argument, _told(scene.results)),
    "write": lambda scene: _run(scene, f"touch {scene.argument}", _told(scene.results), **BEYOND),
    "longtool": lambda scene: _run(scene, "tail -f /dev/null"),
    "slow": lambda scene: Say("slow answer", delay=float(scene.argument or 5)),
    "hang": lambda _: Say("partial answer that never ", breaks="hang"),
    "drop": lambda _: Say("partial answer that never ", breaks="drop"),
    "status": lambda scene: Fail(str(int(scene.argument or 500))),
    "fail": _fail,
}
MARKER = re.compile(rf"\[\[({'|'.join(RULES)})(?::(.*?))?\]\]", re.DOTALL)
