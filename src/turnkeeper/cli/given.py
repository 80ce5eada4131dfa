"""What a command line says about a job's input: `topic=tea`, `notes=@minutes.md`, `@input.json`, and files.

A value is what the skill's schema wants at that place; what the schema then says to it is for the service to tell.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from turnkeeper.core.errors import InvalidRequest

STDIN = "-"
FIELDS = {"permissions": "--permissions", "model": "--model", "engine": "--engine"}
"""Fields of a job that have an option of their own."""


def object_of(words: Iterable[str], schema: Mapping[str, Any] | None, option: str) -> dict[str, Any]:
    """All words of one option together; a later one weighs more."""
    found: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if word == STDIN or word.startswith("@"):
            found |= _whole(word.removeprefix("@"), option)
        elif equals and name:
            found[name] = _value(name, _text(text, option), schema)
        else:
            raise InvalidRequest(
                f"{option} {word!r}: give NAME=VALUE or NAME=@FILE; "
                f"@FILE.json for all of it at once, {STDIN} to read that from stdin"
            )
    return found


def files_of(words: Iterable[str], schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """By input; a name that is given again is a list of files."""
    found: dict[str, list[str]] = {}
    for word in words:
        name, equals, path = word.partition("=")
        if not equals or not name or not path:
            raise InvalidRequest(f"--file {word!r}: give NAME=PATH")
        if not Path(path).is_file():
            raise InvalidRequest(f"--file {name}: there is no file {path}")
        found.setdefault(name, []).append(path)
    _check_names(found, schema)
    properties = _properties(schema)
    return {
        name: paths if properties[name].get("type") == "array" or len(paths) > 1 else paths[0]
        for name, paths in found.items()
    }


def read_stdin() -> str:
    """Strictly: by itself Python takes any bytes for text, and they are refused later, in other words."""
    return sys.stdin.buffer.read().decode("utf-8").replace("\r\n", "\n")


def option_for(error: str) -> str | None:
    """Which option puts right what the service says: `/input/topic: …` is about `--input topic=…`."""
    pointer, _, said = error.partition(":")
    part, _, below = pointer.strip().removeprefix("/").partition("/")
    if part == "body" and below in FIELDS:
        return FIELDS[below]
    option = {"input": "--input", "parameter": "--param"}.get(part)
    if option is None:
        return None
    name = below.split("/")[0] or _quoted(said)
    return f"{option} {name}=…" if name else f"{option} NAME=…"


def _check_names(found: Mapping[str, Any], schema: Mapping[str, Any] | None) -> None:
    """Before there is a job: one that waits for files which nobody brings would wait for an hour."""
    wanted = {
        name: each for name, each in _properties(schema).items() if each.get("x-input-source") == "file"
    }
    for name in found:
        if name not in wanted:
            there = f"its files are: {', '.join(wanted)}" if wanted else "it takes none"
            raise InvalidRequest(f"--file {name}: the skill has no such file input; {there}")
    required = (schema or {}).get("required") or ()
    missing = [name for name in wanted if name in required and name not in found]
    if missing:
        raise InvalidRequest(f"the skill needs a file: --file {missing[0]}=PATH")


def _whole(path: str, option: str) -> dict[str, Any]:
    try:
        found = _json(_read(path, option))
    except ValueError as error:
        raise InvalidRequest(f"{option} {path}: not JSON ({error})") from error
    if not isinstance(found, dict):
        raise InvalidRequest(f"{option} {path}: not a JSON object")
    return found


def _text(text: str, option: str) -> str:
    """`@FILE` is what stands in the file; `@@` is a text that begins with an `@`."""
    if text.startswith("@@"):
        return text[1:]
    return _read(text[1:], option) if text.startswith("@") else text


def _read(path: str, option: str) -> str:
    try:
        return read_stdin() if path == STDIN else Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            f"{option}: {path} is no text in UTF-8; a file as it is goes by --file"
        ) from error
    except OSError as error:
        raise InvalidRequest(f"{option}: {path} cannot be read: {error.strerror}") from error


def _json(text: str) -> Any:
    """Raises ValueError, also for what Python alone takes for JSON, and for what nobody could read again."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _value(name: str, text: str, schema: Mapping[str, Any] | None) -> Any:
    properties = _properties(schema)
    if name in properties and _takes_text(properties[name]):
        return text
    try:
        value = _json(text)
    except ValueError:
        return text
    # Of what the schema does not know, only the unmistakable is taken for JSON: 007 may well be a name.
    return value if name in properties or isinstance(value, dict | list) else text


def _takes_text(schema: Mapping[str, Any]) -> bool:
    match schema:
        case {"type": str(kind)}:
            return kind == "string"
        case {"type": list(kinds)}:
            return "string" in kinds
        case {"enum": list(values)}:
            return any(isinstance(value, str) for value in values)
        case {"const": value}:
            return isinstance(value, str)
        case _:
            return False


def _properties(schema: Mapping[str, Any] | None) -> Mapping[str, Any]:
    found = (schema or {}).get("properties")
    return (
        {name: each for name, each in found.items() if isinstance(each, dict)}
        if isinstance(found, dict)
        else {}
    )


def _quoted(said: str) -> str:
    """`"notes" is a required property`, as the check words it."""
    _, _, rest = said.partition('"')
    name, closing, _ = rest.partition('"')
    return name if closing and "required" in said else ""
