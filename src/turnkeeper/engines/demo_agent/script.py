"""The job that the service left in the run's home: the script to play, and the values its texts refer to."""

# pathlib would cost more than the rest of the start.
# ruff: noqa: PTH118, PTH123

from __future__ import annotations

import os

from .jsontext import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SCRIPT_KEYS = ("announced", "before", "description", "failures", "loadable", "repeat_last", "turns")
SWITCHES = ("announced", "loadable", "repeat_last")
BAD_SCRIPT = 64  # EX_USAGE: whoever wrote the script must act


class TurnFailed(Exception):
    """The turn ends with a failure that is announced: `turn.failed`, or a JSON-RPC error."""

    def __init__(self, code: str, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.exit_code = exit_code


class NoJob(Exception):
    """There is nothing to play: the job file is missing or cannot be read."""


def invalid(message: str) -> TurnFailed:
    return TurnFailed("SCRIPT_INVALID", message, BAD_SCRIPT)


class Job:
    def __init__(self, script: dict[str, Any], values: dict[str, dict[str, Any]]) -> None:
        self.script = script
        self.values = values

    @classmethod
    def read(cls, folder: str) -> Job:
        path = os.path.join(folder, "job.json")
        try:
            with open(path, encoding="utf-8") as file:
                job = loads(file.read())
        except (OSError, ValueError) as error:
            raise NoJob(f"no job to play: {path}: {error}") from error
        if not isinstance(job, dict) or not isinstance(job.get("script"), dict):
            raise NoJob(f"no job to play: {path}: needs an object 'script'")
        values = {name: job.get(name) or {} for name in ("input", "parameter")}
        if not all(isinstance(value, dict) for value in values.values()):
            raise NoJob(f"no job to play: {path}: 'input' and 'parameter' are objects")
        return cls(job["script"], values)

    @property
    def loadable(self) -> bool:
        return self.script.get("loadable", True) is True

    @property
    def announced(self) -> bool:
        """Whether the session is named before the first step."""
        return self.script.get("announced", True) is True

    def before(self) -> list[Any]:
        """The steps that come before the protocol; they are checked by `steps.check_before`."""
        before = self.script.get("before", [])
        if not isinstance(before, list):
            raise invalid("'before' is a list of steps")
        return before

    def turns(self) -> list[list[Any]]:
        """The turns of a script that has the right shape; their steps are checked by `steps.check`."""
        turns = self.script.get("turns")
        unknown = sorted(set(self.script) - set(SCRIPT_KEYS))
        if unknown:
            raise invalid(f"a script has no {unknown[0]!r}; it has {', '.join(SCRIPT_KEYS)}")
        if not all(isinstance(self.script.get(name, True), bool) for name in SWITCHES):
            raise invalid("'announced', 'loadable' and 'repeat_last' are true or false")
        if not _are_failures(self.script.get("failures", ["A01"])):
            raise invalid("'failures' is a list of ids, each a capital letter and two digits")
        if not isinstance(turns, list) or not all(isinstance(steps, list) for steps in turns):
            raise invalid("'turns' is a list of lists of steps")
        return turns

    def steps(self, turn: int) -> list[Any]:
        turns = self.turns()
        if turn < len(turns):
            return turns[turn]
        if turns and self.script.get("repeat_last", False) is True:
            return turns[-1]
        raise TurnFailed(
            "SCRIPT_EXHAUSTED", f"the script has {len(turns)} turns, and this is one more", BAD_SCRIPT
        )


def _are_failures(ids: object) -> bool:
    return isinstance(ids, list) and bool(ids) and all(map(_is_failure, ids))


def _is_failure(name: object) -> bool:
    return isinstance(name, str) and len(name) == 3 and "A" <= name[0] <= "Z" and name[1:].isdecimal()


def render(template: object, value_of: Callable[[str], object]) -> str:
    """The text with each `{{name}}` replaced, once: a placeholder in what a person replied stays as it is."""
    if not isinstance(template, str):
        raise invalid(f"{dumps(template)} should be text")
    parts = []
    rest = template
    while True:
        before, opened, rest = rest.partition("{{")
        parts.append(before)
        if not opened:
            return "".join(parts)
        name, closed, rest = rest.partition("}}")
        if not closed:
            return "".join((*parts, opened, name))
        value = value_of(name.strip())
        parts.append(value if isinstance(value, str) else dumps(value))


def render_all(value: Any, value_of: Callable[[str], object]) -> Any:
    """The same for every text inside a JSON value."""
    if isinstance(value, str):
        return render(value, value_of)
    if isinstance(value, list):
        return [render_all(item, value_of) for item in value]
    if isinstance(value, dict):
        return {key: render_all(item, value_of) for key, item in value.items()}
    return value
