"""The shapes of skills and engines, as the API shows them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from turnkeeper.web.schemas import WarningOut


class SkillOut(BaseModel):
    id: str
    version: str
    name: str
    description: str
    engines: list[str]
    execution_modes: list[Literal["auto", "interactive"]]
    max_attempt: int | None
    timeouts: dict[str, float] = Field(description="The skill's own limits of a turn, in seconds.")
    secrets: list[str] = Field(
        default_factory=list, description="The names of the secrets that it asks for; see `/v1/secrets`."
    )
    warnings: list[WarningOut]
    problems: list[str] = Field(
        default_factory=list, description="Why it cannot be used; empty for a good skill."
    )
    managed: bool = Field(description="Installed through the API: it can be replaced and removed there.")


class Skills(BaseModel):
    skills: list[SkillOut]


class FindingOut(BaseModel):
    severity: Literal["error", "warning"]
    code: str
    where: str = Field(description="The file that it is about.")
    message: str


class Findings(BaseModel):
    skill_id: str
    findings: list[FindingOut]


class Removed(BaseModel):
    id: str
    removed: Literal[True] = True


class Schemas(BaseModel):
    skill_id: str
    input: dict[str, Any] | None
    parameter: dict[str, Any] | None
    output: dict[str, Any] | None


class LoginOut(BaseModel):
    kind: Literal["key", "file", "settings", "not_needed", "none"]
    source: str | None = Field(description="The name of the variable, or the path of the file.")


class ResidentOut(BaseModel):
    ready: bool
    path: str | None
    version: str | None
    reason: str | None
    fix: str | None
    warning: str | None


class EngineOut(BaseModel):
    name: str
    ready: bool
    path: str | None
    version: str | None
    login: LoginOut
    reason: str | None
    fix: str | None = Field(description="The command that makes it ready.")
    warning: str | None
    profiles: list[Literal["resumable", "sticky_process"]]
    resident: ResidentOut | None = Field(
        description="As `sticky_process`, where it may be another program; null: it cannot be."
    )
    permissions: list[Literal["allow", "ask", "deny"]]
    models: list[str] = Field(description="Empty where only the engine itself knows them.")
    limit: int | None
    default: bool = Field(description="The settings name it for jobs that name none.")


class Engines(BaseModel):
    engines: list[EngineOut]
