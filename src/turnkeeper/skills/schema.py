"""JSON Schema, draft 2020-12: compiled once for each schema, never fetching anything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

from jsonschema_rs import Draft202012Validator, ValidationError

MOST = 100
LONGEST = 300
"""A wrong value is repeated in its message, and may be megabytes long."""


def errors(schema: Mapping[str, Any], value: object) -> list[str]:
    """Every error with the JSON pointer of the place it is about; only the first of very many, and shortened."""
    validator = _compiled(json.dumps(schema, sort_keys=True))
    found = list(islice(validator.iter_errors(value), MOST + 1))
    listed = [f"{_pointer(error.instance_path)}: {_short(error.message)}" for error in found[:MOST]]
    return [*listed, "/: and more errors"] if len(found) > MOST else listed


def problem(schema: Mapping[str, Any]) -> str | None:
    """Why this is not a schema that we can use; None if it is."""
    try:
        _compiled(json.dumps(schema, sort_keys=True))
    except (ValidationError, ValueError) as error:
        return str(error).split("\n")[0]
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


@lru_cache(maxsize=256)
def _compiled(text: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads(text), retriever=_refuse)


def _short(message: str) -> str:
    return message if len(message) <= LONGEST else f"{message[:LONGEST]}…"


def _refuse(uri: str) -> Any:
    raise ValueError(f"remote references are not followed: {uri}")


def _pointer(path: list[str | int]) -> str:
    return "/" + "/".join(str(part).replace("~", "~0").replace("/", "~1") for part in path)
