"""The shapes of the service itself: how it is doing, and who signs in."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from turnkeeper.web.schemas import State, Strict


class SlotsOut(BaseModel):
    total: int
    busy: int
    free: int
    waiting: int = Field(description="Held by processes that wait for a person.")
    sticky_total: int = Field(description="How many of them runs of profile `sticky_process` may hold.")
    sticky: int = Field(description="Held by such runs, whether they play a turn or wait.")


class QueueOut(BaseModel):
    length: int
    sticky: int = Field(description="How many of these are of profile `sticky_process`.")


class HeldOut(BaseModel):
    run_id: str
    skill_id: str
    engine: str
    pending_interaction_id: int | None
    since: str
    wait_deadline_at: str | None


class StorageOut(BaseModel):
    free_bytes: int
    free_files: int | None = Field(description="How many can still be made; null: not counted here.")
    min_free_bytes: int = Field(description="With less than this no new work is taken; 0: there is no limit.")
    low: bool = Field(description="New jobs, uploads and skills are refused with `STORAGE_LOW` now.")


class SandboxOut(BaseModel):
    mode: Literal["auto", "off", "required"] = Field(description="As it is set.")
    effective: Literal["bubblewrap", "off"] = Field(description="What turns are really played in.")
    reason: str | None = Field(description="Why there is none; null: there is one.")


class Status(BaseModel):
    version: str
    status: Literal["ready", "starting", "stopping"]
    started_at: str
    slots: SlotsOut
    queue: QueueOut
    runs: dict[State, int] = Field(description="How many there are, by state.")
    held: list[HeldOut] = Field(
        description="Runs that hold a slot while they wait for a person, the longest first; 100 at most. A limited key "
        "sees those of its skills and engines."
    )
    held_count: int = Field(description="How many of these there are.")
    storage: StorageOut = Field(description="The disk of the data directory.")
    sandbox: SandboxOut


def _only(one: str, other: str) -> dict[str, Any]:
    return {"required": [one], "properties": {one: {"type": "string"}, other: {"type": "null"}}}


class SignIn(Strict):
    """One of the two."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [_only("code", "token"), _only("token", "code")]})

    code: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    token: Annotated[str, Field(min_length=1, max_length=1000)] | None = Field(
        default=None, description="The token of the service, or a key."
    )

    @model_validator(mode="after")
    def _one(self) -> SignIn:
        if (self.code is None) == (self.token is None):
            raise ValueError("send a code or a token")
        return self


class SignedIn(BaseModel):
    expires_at: str
    page_key: str = Field(description="Goes with the cookie, as the header `X-Turnkeeper-Page`.")


class SignedOut(BaseModel):
    signed_out: Literal[True] = True


class SignInCode(BaseModel):
    code: str
    url: str
    expires_at: str
    public: bool = Field(
        description="The address is that of `public_url`; else it is by the name that the request came by."
    )


class Health(BaseModel):
    status: Literal["ok", "starting", "stopping"]
