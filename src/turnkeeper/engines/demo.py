"""The built-in engine: a real child process of ours that plays a script, headless or resident, with no login.

A script comes from the job (`parameter.demo_script`: a built-in name, or the script itself), else from the skill
(`assets/demo.json`), else a built-in one that fits the mode. `docs/demo-engine.md` lists the steps.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any

from turnkeeper.core.errors import Code, InvalidRequest, SettingsInvalid
from turnkeeper.core.run import Failure, Mode
from turnkeeper.core.skill import Skill
from turnkeeper.core.turn import Ended, Reasoning, Text, TextDelta, ToolCall, TurnEvent, Usage
from turnkeeper.core.waiting import ProfileKind
from turnkeeper.engines.acp import AcpDialect
from turnkeeper.engines.base import (
    Dialect,
    EngineConfig,
    Launch,
    Login,
    LoginKind,
    Readiness,
    TurnPlan,
    private_env,
)
from turnkeeper.engines.dialect import CliDialect

PARAMETER = "demo_script"
SKILL_SCRIPT = "assets/demo.json"
FALLBACK = {Mode.AUTO: "done", Mode.INTERACTIVE: "ask"}

_here = Path(str(resources.files("turnkeeper.engines")))


class DemoEngine:
    name = "demo"
    is_demo = True
    profiles: tuple[ProfileKind, ...] = (ProfileKind.RESUMABLE, ProfileKind.STICKY)
    asks = True
    own_parameters = frozenset({PARAMETER})
    models: tuple[str, ...] = ("demo",)
    default_model: str | None = None
    skills_dir = ".demo/skills"
    sessions_dir = ""

    def __init__(self, config: EngineConfig) -> None:
        for name in ("command", "resident_command", "model", "env", "config", "login_home", "asks", "modes"):
            if getattr(config, name) not in (None, (), {}):
                raise SettingsInvalid(f"engines.demo.{name}: the demo engine is built in and takes no {name}")

    def readiness(self, kind: ProfileKind | None = None) -> Readiness:
        return Readiness(ready=True, path=str(_here / "demo_agent"), version="1.0.0")

    def login(self) -> Login:
        return Login(LoginKind.NOT_NEEDED)

    def require(self, skill: Skill, parameter: Mapping[str, Any]) -> None:
        _script(parameter, Path(skill.root), Mode.AUTO)

    def launch(self, plan: TurnPlan) -> Launch:
        argv = [sys.executable, "-I", "-S", str(_here / "demo_agent" / "__main__.py")]
        if plan.profile is ProfileKind.STICKY:
            argv += ["--acp"]
        elif plan.session is not None:
            argv += ["--resume", plan.session.session_id]
        job = {
            "script": _script(plan.parameter, plan.skill_dir, plan.mode),
            "input": plan.input,
            "parameter": {k: v for k, v in plan.parameter.items() if k != PARAMETER},
        }
        files = {".demo/job.json": json.dumps(job).encode()}
        reads = (sys.prefix, sys.base_prefix, str(_here / "demo_agent"))
        return Launch(argv=tuple(argv), env=private_env(plan.home), files=files, reads=reads)

    def dialect(self, plan: TurnPlan) -> Dialect:
        if plan.profile is ProfileKind.STICKY:
            return AcpDialect(plan)
        return DemoDialect(plan)


class DemoDialect(CliDialect):
    """Heard as the real CLIs are. See `demo_agent/headless.py` for the other side."""

    lost = re.compile(r"^session not found")

    def events(self, said: dict[str, Any]) -> Sequence[TurnEvent] | None:
        match said:
            case {"type": "session.started", "session_id": str(session)}:
                return self.opened(session)
            case {"type": "message.delta", "message_id": str(message), "text": str(text)}:
                return [TextDelta(text, message)]
            case {"type": "message", "message_id": str(message), "text": str(text)}:
                return [Text(text, message)]
            case {"type": "reasoning", "text": str(text)}:
                return [Reasoning(text)]
            case {"type": "tool", "call_id": str(call), "name": str(name), "status": str(status)}:
                return [ToolCall(call, name, status, said.get("input"), said.get("output"))]
            case {"type": "turn.completed"}:
                usage = said.get("usage")
                return [*([Usage(usage)] if isinstance(usage, dict) else []), Ended()]
            case {"type": "turn.failed", "error": {"message": str(message)}}:
                return [Ended(Failure(_code(said["error"]), message))]
            case _:
                return None


def _code(error: Mapping[str, Any]) -> Code:
    return Code.__members__.get(str(error.get("code")), Code.ENGINE_FAILED)


def _script(parameter: Mapping[str, Any], skill_dir: Path, mode: Mode) -> Any:
    chosen = parameter.get(PARAMETER)
    if isinstance(chosen, Mapping):
        if not isinstance(chosen.get("turns"), list):
            raise InvalidRequest(f'parameter.{PARAMETER}: a script needs "turns", a list of lists of steps')
        return chosen
    if chosen is None:
        with suppress(FileNotFoundError, NotADirectoryError):  # most skills have none
            return _read(skill_dir / SKILL_SCRIPT)
        chosen = FALLBACK[mode]
    names = built_in()
    if not isinstance(chosen, str) or chosen not in names:
        raise InvalidRequest(
            f"parameter.{PARAMETER}: the demo engine has no script {chosen!r}; it has {', '.join(names)}"
        )
    return _read(names[chosen])


def built_in() -> dict[str, Path]:
    """The scripts by their names: those of a folder come after the others, with its name before theirs."""
    folder = _here / "demo_scripts"
    paths = sorted(folder.rglob("*.json"), key=lambda path: (len(path.parts), path))
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in paths}


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InvalidRequest(f"the demo script {path.name} is not valid JSON: {error}") from error
