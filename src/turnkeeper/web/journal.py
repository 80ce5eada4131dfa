"""The journal: who changed what in the service itself."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from turnkeeper.core.errors import CursorInvalid
from turnkeeper.core.fcmp import instant
from turnkeeper.core.journal import Entry
from turnkeeper.web import key_schemas as schemas
from turnkeeper.web.calls import Call, Route
from turnkeeper.web.parts import problems

router = APIRouter(prefix="/v1/journal", tags=["service"], route_class=Route, responses=problems(503))

MAX_DIGITS = 18


@router.get("", response_model=schemas.JournalOut)
async def get_journal(
    call: Call, limit: Annotated[int, Query(ge=1, le=200)] = 50, cursor: str | None = None
) -> dict[str, Any]:
    """Newest first: keys, skills and removals, with who made each change; `next_cursor` pages on."""
    found = await call.house.store.journal(before=_read_cursor(cursor) if cursor else None, limit=limit + 1)
    page = found[:limit]
    return {
        "entries": [_entry(each) for each in page],
        "next_cursor": str(page[-1].seq) if len(found) > limit else None,
    }


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "seq": entry.seq,
        "at": instant(entry.at),
        "by": entry.by,
        "what": entry.what,
        "subject": entry.subject,
        "detail": dict(entry.detail),
    }


def _read_cursor(cursor: str) -> int:
    if cursor.isascii() and cursor.isdigit() and len(cursor) <= MAX_DIGITS:
        return int(cursor)
    raise CursorInvalid("the cursor is not one that this service gave out")
