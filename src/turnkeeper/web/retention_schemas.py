"""The shapes of a removal: what may go, and what went."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.config import JsonDict

from turnkeeper.core.retention import Limits, Part
from turnkeeper.core.statechart import State
from turnkeeper.web.schemas import LARGEST, Strict, Truth, number

OLDEST_SEC = 100 * 365 * 24 * 3600
Bytes = Annotated[int, Field(ge=0, le=LARGEST), BeforeValidator(number)]
Removable = Literal["succeeded", "failed", "canceled", "waiting_user"]
_GIVEN: JsonDict = {
    "older_than_sec": {"type": "number", "minimum": 0, "maximum": OLDEST_SEC},
    "keep_bytes": {"type": "integer", "minimum": 0, "maximum": LARGEST},
}


class Prune(Strict):
    """At least one of `older_than_sec` and `keep_bytes`; with both, both hold afterwards."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [{"required": [name], "properties": {name: kind}} for name, kind in _GIVEN.items()],
            "not": {
                "required": ["only", "status"],
                "properties": {
                    "only": {"enum": ["homes", "logs"]},
                    "status": {"type": "array", "contains": {"const": "waiting_user"}},
                },
            },
        }
    )

    older_than_sec: Annotated[float, Field(strict=True, ge=0, le=OLDEST_SEC)] | None = Field(
        default=None, description="Since the run ended, or was asked what it waits with."
    )
    keep_bytes: Bytes | None = Field(
        default=None, description="What all runs together may take of the disk; the oldest go until they do."
    )
    status: list[Removable] = Field(
        default=["succeeded", "failed", "canceled"],
        min_length=1,
        description="Only those in one of these; runs that wait are never removed unless named here.",
    )
    only: Literal["runs", "homes", "logs"] = Field(
        default="runs", description="`runs`: all of them. Else the records stay, without this part of them."
    )
    dry_run: Truth = Field(default=False, description="Only say what would be removed.")

    @model_validator(mode="after")
    def _sensible(self) -> Prune:
        if self.older_than_sec is None and self.keep_bytes is None:
            raise ValueError("send older_than_sec, keep_bytes or both")
        if self.only != "runs" and "waiting_user" in self.status:
            raise ValueError("a run that waits needs its home and its logs; it can only be removed whole")
        return self

    def limits(self) -> Limits:
        return Limits(
            older_than=None if self.older_than_sec is None else timedelta(seconds=self.older_than_sec),
            keep_bytes=self.keep_bytes,
            part=Part(self.only),
            states=tuple(dict.fromkeys(map(State, self.status))),
        )


class SpaceOut(BaseModel):
    """Bytes on the disk; the database, which reuses what becomes free in it, is not counted."""

    total: int
    homes: int
    logs: int
    files: int = Field(description="Workspaces: uploads and artifacts.")


class PrunedRun(BaseModel):
    run_id: str
    status: Removable
    skill_id: str
    since: str
    bytes: int


class Pruned(BaseModel):
    dry_run: bool
    only: Literal["runs", "homes", "logs"]
    count: int = Field(description="Runs of which something was, or would be, removed.")
    bytes: SpaceOut
    undeleted: int = Field(description="How many of them left files that cannot be deleted; see the log.")
    remaining_bytes: int | None = Field(description="What all runs still take; with `keep_bytes` only.")
    runs: list[PrunedRun] = Field(description="The oldest of them; 1000 at most.")
