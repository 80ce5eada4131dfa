"""How a JSON body is read: as UTF-8, with every name once, and with words for what is wrong with it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from starlette.exceptions import HTTPException

from turnkeeper.web.problems import LONGEST_NAME

LARGE = 64 * 1024
"""A body of more bytes is read beside the event loop: 4 MB of small objects take half a second."""


class NotJson(HTTPException):
    """Of this kind because FastAPI takes any other for an error that it has no words for."""

    def __init__(self, why: str) -> None:
        super().__init__(400, f"the body {why}")


def parsed(body: bytes) -> Any:
    try:
        return json.loads(body.decode("utf-8"), object_pairs_hook=_once)
    except UnicodeDecodeError as error:
        raise NotJson(f"is not UTF-8: {error.reason} at byte {error.start}") from None
    except RecursionError:
        raise NotJson("is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise NotJson(f"is not JSON: {error}") from None
    except ValueError:
        raise NotJson("has a number of too many digits") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Python keeps the last of two values, other readers the first: nobody could say which was meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise NotJson(f"has {twice[:LONGEST_NAME]!r} twice in one object")
    return found


def says_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
