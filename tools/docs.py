"""Writes the generated parts of README and docs: tables and a diagram that the code already knows.

A part stands between `<!-- generated:NAME -->` and `<!-- /generated:NAME -->`; everything around it is written by
hand. `--check` writes nothing and says which pages are behind.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import resources
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from turnkeeper.core.errors import MEANING, Code, Warn
from turnkeeper.core.run import Handle, Mode, Permissions
from turnkeeper.core.statechart import TABLE, Trigger, diagram
from turnkeeper.core.turn import COUNTERS
from turnkeeper.core.waiting import ProfileKind
from turnkeeper.engines import registry
from turnkeeper.engines.base import Login, LoginKind, TurnPlan
from turnkeeper.engines.cli import CliEngine
from turnkeeper.settings import EngineSettings, Settings
from turnkeeper.skills.findings import LINT, WARNS
from turnkeeper.web.problems import status_of

ROOT = Path(__file__).parents[1]
TRANSCRIPTS = ROOT / "tests" / "transcripts"

_PART = re.compile(
    r"(?P<open><!-- generated:(?P<name>[\w-]+) -->\n).*?(?P<close><!-- /generated:(?P=name) -->)", re.DOTALL
)

# The enum lists the codes in three groups; these open the second and the third.
FIRST_OF_START, FIRST_OF_RUNS = Code.SETTINGS_INVALID, Code.OUTPUT_INVALID

WHEN: dict[Trigger, str] = {
    Trigger.INPUT_COMPLETED: "The uploaded files are complete.",
    Trigger.INPUT_EXPIRED: "The files did not come in time.",
    Trigger.TURN_STARTED: "A slot is free: a worker claims the run, and only then starts the process. Or a permission "
    "is answered, and the turn goes on.",
    Trigger.TURN_NEEDS_INPUT: "The turn ended cleanly without marker and without valid output.",
    Trigger.TURN_NEEDS_PERMISSION: "The agent asks for a permission in the middle of its turn.",
    Trigger.TURN_SUCCEEDED: "The verdict is success.",
    Trigger.TURN_FAILED: "The verdict is failure, or the process could not be started.",
    Trigger.REPLY_ACCEPTED: "A person replied.",
    Trigger.WITHDRAWN: "The agent took back its request for a permission, or closed its turn without an answer.",
    Trigger.AUTO_DECIDE_TIMEOUT: "Nobody replied by the deadline, and the job lets the engine decide.",
    Trigger.WAIT_TIMEOUT: "Nobody replied to a resident run by the deadline, and the job insists on a person.",
    Trigger.PROCESS_LOST: "The resident process ended while waiting: its session cannot be loaded, or a permission "
    "was open.",
    Trigger.RESUME_TURN: "The service stopped during the turn; the same attempt is tried again.",
    Trigger.PRESERVE_WAITING: "The service restarted, or a resident process ended; the question stays open.",
    Trigger.RECONCILE_FAILED: "What the run would need to go on is gone, or a fault of ours ended the turn.",
    Trigger.RUN_CANCELED: "Somebody canceled the run, and nothing of it is alive any more.",
}

SETTINGS: dict[str, str] = {
    "data_dir": "Where the database, the token and the folders of all runs are kept.",
    "skills_dir": "More folders with skills, separated by `:` (a list in the file).",
    "host": "Address to listen on.",
    "port": "Port to listen on; 0 picks a free one.",
    "allowed_hosts": "More names that requests may carry in `Host`, separated by commas (a list in the file).",
    "token": "The bearer token, at least 16 characters, instead of the generated one.",
    "slots": "How many turns, and waiting resident processes, may be alive at once.",
    "sticky_slots": "How many of the slots runs of profile `sticky_process` may hold.",
    "max_queued": "With so many runs in line, a new job is refused with 429.",
    "default_engine": "The engine of a job that names none.",
    "engines_dir": "Where `turnkeeper engines install` puts engines.",
    "session_timeout_sec": "How long a wait with a deadline lasts, unless the job says otherwise.",
    "upload_timeout_sec": "How long a job that needs files waits for their upload.",
    "max_upload_mb": "The largest upload, in MiB: files of a job, or the archive of a skill.",
    "timeouts__first_byte_sec": "A turn fails if the engine at first neither prints nor works for so long.",
    "timeouts__idle_sec": "A turn fails if the engine later neither prints nor works for so long.",
    "timeouts__turn_sec": "A turn fails if it takes longer.",
    "timeouts__result_grace_sec": "How long an engine may take to exit after its result.",
    "timeouts__step_sec": "Between INT, TERM and KILL when a process is ended.",
    "engines__<name>__command": "How it is started, `node /opt/cli.js` say; else a managed install, else PATH.",
    "engines__<name>__resident_command": "`codex`, `claude`: how the program is started that makes it a resident.",
    "engines__<name>__asks": "For an agent of your own: whether it asks before it acts.",
    "engines__<name>__modes": "For an agent of your own: the mode of its sessions, by `permissions`.",
    "engines__<name>__limit": "How many turns of this engine may run at once; a resident that waits counts too.",
    "engines__<name>__model": "The model of jobs that name none.",
    "engines__<name>__env": "More variables for it: `NAME` as the service has it, or `NAME=value`.",
    "engines__<name>__config": "Laid over the settings file that is written into the home of each run.",
    "engines__<name>__login_home": "Where the login files of this engine are.",
}
DEFAULTS = {
    "data_dir": "`~/.local/share/turnkeeper`",
    "skills_dir": "none beside `skills` in the data directory",
    "engines_dir": "`engines` in the data directory",
    "engines__<name>__modes": "none",
    "engines__<name>__config": "none",
    "engines__<name>__login_home": "the home of the service's user",
    "token": "generated, kept in `token` in the data directory",
    "slots": "CPU count, at least 4",
    "sticky_slots": "`slots` - 1, at least 1",
}
"""Where the default is computed, or None stands for more than nothing."""

HEADLESS = TurnPlan(
    profile=ProfileKind.RESUMABLE,
    mode=Mode.AUTO,
    workspace=Path("WORKSPACE"),
    home=Path("HOME"),
    skill_dir=Path("SKILL"),
    model="MODEL",
)
RESIDENT = replace(HEADLESS, profile=ProfileKind.STICKY)
"""For the command lines that are shown."""


def request_codes() -> str:
    """Those of the first group, and the few others that have a status of their own."""
    codes = list(Code)
    first = codes[: codes.index(FIRST_OF_START)]
    both = [code for code in codes if code not in first and status_of(code) != 400]
    return _table(
        ("code", "HTTP", "meaning"), ((f"`{c}`", str(status_of(c)), MEANING[c]) for c in [*first, *both])
    )


def start_codes() -> str:
    codes = list(Code)
    return _meanings(codes[codes.index(FIRST_OF_START) : codes.index(FIRST_OF_RUNS)])


def run_codes() -> str:
    codes = list(Code)
    return _meanings(codes[codes.index(FIRST_OF_RUNS) :])


def warnings() -> str:
    return _meanings(Warn)


def mermaid() -> str:
    return f"```mermaid\n{diagram()}\n```\n"


def transitions() -> str:
    """One row for each trigger and target; states from which both are the same stand together."""
    rows: dict[tuple[str, str], list[str]] = {}
    for (state, trigger), target in TABLE.items():
        rows.setdefault((trigger, target), []).append(f"`{state}`")
    return _table(
        ("from", "trigger", "to", "when"),
        (
            (", ".join(states), f"`{trigger}`", f"`{to}`", WHEN[Trigger(trigger)])
            for (trigger, to), states in rows.items()
        ),
    )


def settings() -> str:
    rows = [(name, _default(name, field)) for name, field in _fields(Settings)]
    return _table(
        ("variable", "default", "meaning"),
        ((f"`TURNKEEPER_{name.upper()}`", default, SETTINGS[name]) for name, default in rows),
    )


def scripts() -> str:
    folder = resources.files("turnkeeper.engines") / "demo_scripts"
    found = {
        entry.name.removesuffix(".json"): json.loads(entry.read_text(encoding="utf-8"))["description"]
        for entry in folder.iterdir()
        if entry.name.endswith(".json")
    }
    return _table(
        ("script", "what it plays"), ((f"`{name}`", words) for name, words in sorted(found.items()))
    )


def lint_codes() -> str:
    return _table(
        ("code", "severity", "meaning"),
        ((f"`{code}`", "warning" if code in WARNS else "error", meaning) for code, meaning in LINT.items()),
    )


def engines() -> str:
    """What the code declares, and what the recorded turns show."""
    head = (
        "engine",
        "tested version",
        "npm package",
        "profiles",
        "tools are told",
        "model is told",
        "tokens are told",
    )
    return _table(head, (_capabilities(engine) for engine in _clis()))


def _capabilities(engine: CliEngine) -> tuple[str, ...]:
    recorded = json.loads((TRANSCRIPTS / engine.name / "expected.json").read_text(encoding="utf-8")).values()
    statuses = {tool["status"] for turn in recorded for tool in turn["tools"]}
    counted = {name for turn in recorded for name in turn["usage"]}
    package = engine.package
    return (
        f"`{engine.name}`",
        package.version if package else "a fork of 0.5.19",
        f"`{package.name}`" if package else "none any more",
        ", ".join(f"`{kind}`" for kind in engine.profiles),
        "from their beginning" if "in_progress" in statuses else "when they are over" if statuses else "no",
        "yes" if any(turn["model"] for turn in recorded) else "no",
        ", ".join(name.removesuffix("_tokens") for name in COUNTERS if name in counted),
    )


def logins() -> str:
    head = ("engine", "keys: one is enough", "other variables", "file of a login", "made by")
    return _table(
        head,
        (
            (
                f"`{engine.name}`",
                _names(engine.keys),
                _names(engine.addresses),
                _names(engine.login_files[:1]),
                _names([engine.login_command] if engine.login_command else []),
            )
            for engine in _clis()
        ),
    )


def words() -> str:
    """The command lines as the engines make them."""
    resume = replace(HEADLESS, session=Handle("SESSION", loadable=True))
    return _text(
        " ".join((engine.name, *engine.words(plan))) for engine in _clis() for plan in (HEADLESS, resume)
    )


def residents() -> str:
    head = ("engine", "program", "npm package", "tested version", "`permissions`", "session in a new process")
    return _table(head, map(_resident, _clis()))


def _resident(engine: CliEngine) -> tuple[str, ...]:
    package = engine.adapter.package if engine.adapter else None
    return (
        f"`{engine.name}`",
        f"`{_resident_program(engine)}`",
        f"`{package.name}`" if package else "the engine itself",
        package.version if package else "the same",
        ", ".join(f"`{each}`" for each in Permissions if engine.asks or each is Permissions.ALLOW),
        "is loaded" if engine.manners(RESIDENT).loads else "is lost",
    )


def resident_words() -> str:
    """First as one that may do everything, then as one that asks, where that is another command."""
    lines = (
        " ".join((_resident_program(engine), *engine.resident_words(plan)))
        for engine in _clis()
        for plan in (RESIDENT, replace(RESIDENT, permissions=Permissions.ASK))
        if engine.asks or plan is RESIDENT
    )
    return _text(dict.fromkeys(lines))


def _resident_program(engine: CliEngine) -> str:
    return engine.adapter.program if engine.adapter else engine.name


def homes() -> str:
    head = ("engine", "skills, in the run's home", "settings that we write there", "variables that we set")
    return _table(
        head,
        (
            (
                f"`{engine.name}`",
                f"`{engine.skills_dir}`",
                f"`{engine.settings_file}`" if engine.settings(Login(LoginKind.KEY)) else "none",
                _names([*engine.places(Path("~")), *engine.switches]),
            )
            for engine in _clis()
        ),
    )


def _clis() -> list[CliEngine]:
    return [engine for engine in registry.engines({}).values() if isinstance(engine, CliEngine)]


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


PARTS: dict[str, Callable[[], str]] = {
    "engines": engines,
    "engine-logins": logins,
    "engine-words": words,
    "engine-residents": residents,
    "engine-resident-words": resident_words,
    "engine-homes": homes,
    "request-codes": request_codes,
    "start-codes": start_codes,
    "run-codes": run_codes,
    "warnings": warnings,
    "diagram": mermaid,
    "transitions": transitions,
    "settings": settings,
    "scripts": scripts,
    "lint-codes": lint_codes,
}


def pages(root: Path = ROOT) -> list[Path]:
    return [root / "README.md", *sorted((root / "docs").glob("*.md"))]


def fill(text: str) -> str:
    """The page with each of its generated parts made anew."""
    return _PART.sub(lambda part: f"{part['open']}\n{PARTS[part['name']]()}\n{part['close']}", text)


def names(text: str) -> list[str]:
    return [part["name"] for part in _PART.finditer(text)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page is behind")
    check = parser.parse_args().check
    behind = 0
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (filled := fill(text)) == text:
            continue
        behind += 1
        print(f"{page.relative_to(ROOT)} {'is behind: run make docs' if check else 'was written again'}")
        if not check:
            page.write_text(filled, encoding="utf-8")
    return 1 if check and behind else 0


def _fields(model: type[BaseModel], prefix: str = "") -> Iterable[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _fields(kind, f"{prefix}{name}__")
        elif name == "engines":
            yield from _fields(EngineSettings, "engines__<name>__")
        else:
            yield f"{prefix}{name}", field


def _default(name: str, field: FieldInfo) -> str:
    if name in DEFAULTS:
        return DEFAULTS[name]
    shown = f"{field.default:g}" if isinstance(field.default, float) else field.default
    return f"`{shown}`" if field.default not in (None, ()) else "none"


def _meanings(codes: Iterable[Code | Warn]) -> str:
    return _table(("code", "meaning"), ((f"`{code}`", MEANING[code]) for code in codes))


def _text(lines: Iterable[str]) -> str:
    return "```text\n" + "\n".join(lines) + "\n```\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
