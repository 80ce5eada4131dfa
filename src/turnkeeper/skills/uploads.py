"""The files of a job: taken from a zip or one by one, each assigned to an input of the skill by its name."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from turnkeeper.core.contract import Contract, FileInput, file_inputs
from turnkeeper.core.errors import ArchiveRefused, InputInvalid, InvalidRequest
from turnkeeper.skills import archive, schema
from turnkeeper.skills.artifacts import UPLOADS
from turnkeeper.skills.durable import sync_folder

ARCHIVE = "file"
"""The part that is a zip of everything, unless the skill has an input of this name."""
LONGEST_NAME = 255

Found = dict[str, Any]
"""Paths by the key of the input: one path, or a list where the input takes many."""


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a multipart body."""

    name: str
    filename: str
    file: BinaryIO


def expected(inputs: Sequence[FileInput], given: Mapping[str, Any]) -> list[str]:
    """What must be uploaded: the required files, and optional ones that the job names."""
    return [each.key for each in inputs if each.required or each.key in given]


def misnamed(inputs: Sequence[FileInput], given: Mapping[str, Any]) -> list[str]:
    """A job may name a file that it will upload; it cannot bring the file itself."""
    return [
        f"/input/{each.key}: comes by upload; give the {'names of files' if each.many else 'name of a file'} "
        "in the upload, or leave it out"
        for each in inputs
        if each.key in given and not _is_name(given[each.key], many=each.many)
    ]


def receive(contract: Contract, given: Mapping[str, Any], parts: Sequence[Part], into: Path) -> Found:
    """The upload in the new folder `into`; where each input's file will be in the workspace. All of it or nothing."""
    inputs = file_inputs(contract.input_schema)
    if [part.name for part in parts] == [ARCHIVE] and ARCHIVE not in {each.key for each in inputs}:
        found, errors = assign(inputs, given, archive.extract(parts[0].file, into))
    else:
        found = _write(inputs, parts, into)
        missing = [key for key in expected(inputs, given) if key not in found]
        errors = [f"/input/{key}: is not in the upload" for key in missing]
    files = {key: _placed(path) for key, path in found.items()}
    if not errors and contract.input_schema is not None:
        errors = schema.below("input", schema.errors(contract.input_schema, {**given, **files}))
    if errors:
        raise InputInvalid(f"the upload does not fit the skill: {'; '.join(errors)}", errors=errors)
    return files


def assign(
    inputs: Sequence[FileInput], given: Mapping[str, Any], paths: Sequence[str]
) -> tuple[Found, list[str]]:
    """Each input's file among these, and what is missing or cannot be told apart, by JSON pointer."""
    found: Found = {}
    errors = []
    needed = expected(inputs, given)
    for each in inputs:
        name = given.get(each.key)
        matching = _matching(each, name, paths)
        if matching and (each.many or len(matching) == 1):
            found[each.key] = matching if each.many else matching[0]
        elif matching:
            errors.append(
                f"/input/{each.key}: could be any of {', '.join(matching[:5])}; name one in the job"
            )
        elif each.key in needed:
            errors.append(f"/input/{each.key}: {_wanted(each, name)} is not in the upload")
    return found, errors


def _matching(wanted: FileInput, name: Any, paths: Sequence[str]) -> list[str]:
    if name is not None:
        names = name if isinstance(name, list) else [name]
        return list(names) if all(each in paths for each in names) else []
    inside = [path for path in paths if path.startswith(f"{wanted.key}/")] if wanted.many else []
    # `report` or `report.pdf`, not in a folder.
    return inside or [
        path
        for path in paths
        if "/" not in path and (path == wanted.key or path.startswith(f"{wanted.key}."))
    ]


def _wanted(wanted: FileInput, name: Any) -> str:
    if name is not None:
        return f"{name!r}"
    return (
        f"a folder {wanted.key!r} with files" if wanted.many else f"a file {wanted.key!r} or '{wanted.key}.…'"
    )


def _is_name(value: Any, *, many: bool) -> bool:
    if many:
        return isinstance(value, list) and bool(value) and all(_is_name(each, many=False) for each in value)
    return isinstance(value, str) and bool(value)


def _write(inputs: Sequence[FileInput], parts: Sequence[Part], into: Path) -> Found:
    """Each part a file, named by the input that it is for."""
    takes_many = {each.key: each.many for each in inputs}
    unknown = sorted({part.name for part in parts} - set(takes_many))
    if unknown or not parts:
        raise InvalidRequest(
            f"the upload has {', '.join(map(repr, unknown)) or 'no file'}; send a zip as {ARCHIVE!r}, "
            f"or a part for each of the skill's file inputs: {', '.join(takes_many)}"
        )
    into.mkdir(mode=0o700)
    found: Found = {}
    for part in parts:
        name = _file_name(part.filename or part.name)
        if takes_many[part.name]:
            found.setdefault(part.name, []).append(name)
        elif found.setdefault(part.name, name) is not name:
            raise InvalidRequest(f"the input {part.name!r} takes one file, and the upload has several")
        _save(part.file, into / name)
    sync_folder(into)
    return found


def _save(file: BinaryIO, path: Path) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise InvalidRequest(f"two files of the upload are called {path.name!r}") from None
    with os.fdopen(handle, "wb") as out:
        shutil.copyfileobj(file, out)
        out.flush()
        os.fsync(out.fileno())


def _file_name(given: str) -> str:
    """The last part of whatever path a client calls it by."""
    name = given.replace("\\", "/").rsplit("/", 1)[-1]
    if (
        name in ("", ".", "..")
        or not name.isprintable()
        or len(name.encode("utf-8", "replace")) > LONGEST_NAME
    ):
        raise ArchiveRefused(
            f"{given[:LONGEST_NAME]!r} cannot be the name of a file", entry=given[:LONGEST_NAME]
        )
    return name


def _placed(path: Any) -> Any:
    return [_placed(each) for each in path] if isinstance(path, list) else f"{UPLOADS}/{path}"
