"""The shapes of named secrets: what comes in has a value, what goes out never has."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field, SecretStr

from turnkeeper.web.schemas import Strict


class SetSecret(Strict):
    value: SecretStr = Field(description="At least 8 characters, at most 64 KB, no NUL; never shown again.")


class SecretOut(BaseModel):
    name: str
    grants: list[str] = Field(description="The ids of the skills that may have it.")
    set_at: str
    set_by: str


class SecretList(BaseModel):
    secrets: list[SecretOut]


class SecretRemoved(BaseModel):
    name: str
    removed: Literal[True] = True
