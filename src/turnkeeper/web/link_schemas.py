"""The shapes of answer links: made by who may answer, used by who was given one."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field

from turnkeeper.web.links import LASTS, LONGEST
from turnkeeper.web.schemas import LARGEST, Pending, Seconds, Strict, number

_UNSEEN = r"\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff"
LABEL = rf"^[^\s{_UNSEEN}]([^{_UNSEEN}]*[^\s{_UNSEEN}])?$"
"""It is recorded with the answer and shown to people: no line breaks, nothing that hides, no blanks around it."""


class NewLink(Strict):
    interaction_id: Annotated[int, Field(ge=1, le=LARGEST), BeforeValidator(number)] | None = Field(
        default=None, description="Only if this is the open question."
    )
    for_: Annotated[str, Field(min_length=1, max_length=64, pattern=LABEL)] | None = Field(
        default=None, alias="for", description="Who it is for; their answer is recorded as `link:NAME`."
    )
    expires_in_sec: Annotated[Seconds, Field(le=LONGEST.total_seconds())] | None = Field(
        default=None,
        description=f"{LASTS.days} days unless given, {LONGEST.days} at most; with its question it ends in any case.",
    )


class LinkOut(BaseModel):
    url: str = Field(description="What is behind `#` is the secret: a browser sends it to nobody.")
    expires_at: str
    interaction_id: int
    public: bool = Field(
        description="The address is that of `public_url`; else it is by the name that the request came by."
    )


class AskedOut(BaseModel):
    """The question, and nothing else about its run."""

    skill_id: str
    pending: Pending
    expires_at: str = Field(description="When the link ends.")
