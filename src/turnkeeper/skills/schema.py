"""JSON Schema, draft 2020-12: compiled once for each schema, never fetching anything, and never for ever."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from functools import cache, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from turnkeeper.skills.bounds import DEEPEST, Bounds, levels
from turnkeeper.skills.patterns import options

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

MOST = 100
LONGEST = 300
"""A wrong value is repeated in its message, and may be megabytes long."""


def errors(schema: Mapping[str, Any], value: object) -> list[str]:
    """Every error with the JSON pointer of the place it is about; only the first of very many, and shortened.

    What cannot be decided within our bounds is an error as well, and says so.
    """
    try:
        return _errors(_compiled(json.dumps(schema, sort_keys=True)), value)
    except ValueError as error:
        return [f"/: cannot be checked: {_short(_reason(error))}"]


def problem(schema: Mapping[str, Any]) -> str | None:
    """Why this is not a schema that we can use; None if it is."""
    if levels(schema, DEEPEST) > DEEPEST:
        return f"it nests deeper than {DEEPEST} levels"
    try:
        _compiled(json.dumps(schema, sort_keys=True))
    except ValueError as error:
        return _short(_reason(error))
    return None


def defaults(schema: Mapping[str, Any] | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """`given`, with the schema's top-level defaults for what is missing."""
    properties = schema.get("properties", {}) if schema else {}
    missing = {
        name: entry["default"]
        for name, entry in properties.items()
        if name not in given and isinstance(entry, dict) and "default" in entry
    }
    return {**given, **missing}


def before_upload(schema: Mapping[str, Any], file_keys: Collection[str]) -> dict[str, Any]:
    """The input schema for the time before the upload: a file may be anything, but it must be announced."""
    anything = dict.fromkeys(file_keys, True)
    return (
        {**schema, "properties": {**schema.get("properties", {}), **anything}} if anything else dict(schema)
    )


def below(place: str, errors: Iterable[str]) -> list[str]:
    """The same errors, about a value that itself stands at `/place`."""
    return [f"/{place}{error.removeprefix('/') if error.startswith('/: ') else error}" for error in errors]


class _Compiled:
    def __init__(self, schema: dict[str, Any]) -> None:
        # Loaded here, and not above: a tenth of the memory of a service that has played nothing yet.
        from jsonschema_rs import Draft202012Validator

        _metaschema().validate(schema)
        self.bounds = Bounds(schema)
        self.validator = Draft202012Validator(schema, retriever=_refuse, pattern_options=options())


@lru_cache(maxsize=256)
def _compiled(text: str) -> _Compiled:
    return _Compiled(json.loads(text))


@cache
def _metaschema() -> Draft202012Validator:
    from jsonschema_rs import Draft202012Validator

    return Draft202012Validator({"$ref": "https://json-schema.org/draft/2020-12/schema"}, retriever=_refuse)


def _errors(compiled: _Compiled, value: object) -> list[str]:
    refusal = compiled.bounds.refusal(value)
    if refusal:
        return [f"{refusal.place}: cannot be checked: {_short(refusal.reason)}"]
    if compiled.validator.is_valid(value):
        return []
    if not compiled.bounds.can_list(value):
        return ["/: does not fit the schema, and is too large or too deep to say where"]
    found = list(islice(compiled.validator.iter_errors(value), MOST + 1))
    listed = [f"{_pointer(error.instance_path)}: {_short(error.message)}" for error in found[:MOST]]
    return [*listed, "/: and more errors"] if len(found) > MOST else listed


def _reason(error: ValueError) -> str:
    from jsonschema_rs import ValidationError

    if isinstance(error, ValidationError):
        return f"{_pointer(error.instance_path)}: {error.message}"
    if isinstance(error, UnicodeError):
        return "it holds text that is not Unicode"
    return str(error).split("\n")[0]


def _short(message: str) -> str:
    """Without its middle: the value comes first, and what was wanted of it last."""
    half = LONGEST // 2
    return message if len(message) <= LONGEST else f"{message[:half]} … {message[-half:]}"


def _refuse(uri: str) -> Any:
    raise ValueError(f"remote references are not followed: {uri}")


def _pointer(path: list[str | int]) -> str:
    return "/" + "/".join(str(part).replace("~", "~0").replace("/", "~1") for part in path)
