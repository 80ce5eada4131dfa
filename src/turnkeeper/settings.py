"""Settings: one TOML file and the environment, the same names. A wrong one is said in one line, at the start."""

from __future__ import annotations

import os
import shlex
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from platformdirs import user_config_path, user_data_path
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from turnkeeper.core.errors import SettingsInvalid
from turnkeeper.core.retention import Limits, Part
from turnkeeper.core.run import Permissions, SandboxMode, Timeouts

Seconds = Annotated[float, Field(gt=0, le=365 * 24 * 3600)]
Days = Annotated[float, Field(gt=0, le=100 * 365)]
GB = 10**9
EnvEntry = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(=.*)?$")]
SECRET = "token"
"""A setting whose value is never repeated."""
MACHINE = (Path("/proc"), Path("/dev"), Path("/sys"))
HARMLESS = frozenset({"asks", "command", "limit", "login_home", "model", "modes", "resident_command"})
"""Of what stands below an engine; any other text there may be a key, or was meant as one."""
OURS = frozenset({"HOME", "TMPDIR", "TURNKEEPER_RUN"})
"""Variables that are the run's own."""
NOT_SETTINGS = frozenset({"CONFIG", "RUN", "URL"})
"""Names with our prefix that mean something else: this file's path, the mark of an engine, a client's server."""
NESTED = frozenset({"ENGINES", "RETENTION", "SANDBOX", "TIMEOUTS"})
"""Settings that have settings below them, after two underscores."""

_LIMITS = Timeouts()


def default_data_dir() -> Path:
    return user_data_path("turnkeeper")


class TimeoutSettings(BaseModel):
    model_config = ConfigDict(extra="forbid")

    first_byte_sec: Seconds = _LIMITS.first_byte_sec
    idle_sec: Seconds = _LIMITS.idle_sec
    turn_sec: Seconds = _LIMITS.turn_sec
    result_grace_sec: Seconds = _LIMITS.result_grace_sec
    step_sec: Seconds = _LIMITS.step_sec

    def core(self) -> Timeouts:
        return Timeouts(**self.model_dump())


class RetentionSettings(BaseModel):
    """What is removed by itself; nothing, unless a limit is set. Runs that wait never are."""

    model_config = ConfigDict(extra="forbid")

    runs_days: Days | None = None
    homes_days: Days | None = None
    logs_days: Days | None = None
    max_gb: Annotated[float, Field(gt=0, le=10**6)] | None = None

    def limits(self) -> tuple[Limits, ...]:
        # Whole runs last: to forget one the database must be written, for which a full disk has no room.
        days = {Part.HOMES: self.homes_days, Part.LOGS: self.logs_days, Part.RUNS: self.runs_days}
        ages = [
            Limits(part=part, older_than=timedelta(days=count))
            for part, count in days.items()
            if count is not None
        ]
        # Last: what is too old may be all that is too much.
        return (*ages, *([Limits(keep_bytes=int(self.max_gb * GB))] if self.max_gb is not None else []))


class SandboxSettings(BaseModel):
    """What an agent may touch, and how much of the machine it may use."""

    model_config = ConfigDict(extra="forbid")

    mode: SandboxMode = SandboxMode.AUTO
    read: Annotated[tuple[Path, ...], NoDecode] = ()
    max_processes: int = Field(default=2048, ge=1)
    max_memory_mb: int | None = Field(default=None, ge=1)
    max_open_files: int = Field(default=16384, ge=64)
    max_file_mb: int = Field(default=10_000, ge=1)
    max_disk_mb: int = Field(default=20_000, ge=1)

    @field_validator("read", mode="before")
    @classmethod
    def _paths(cls, value: Any) -> Any:
        return tuple(part for part in value.split(os.pathsep) if part) if isinstance(value, str) else value

    @field_validator("read")
    @classmethod
    def _read(cls, value: tuple[Path, ...]) -> tuple[Path, ...]:
        return tuple(_shown(_absolute(path)) for path in value)


class EngineSettings(BaseModel):
    model_config = ConfigDict(extra="forbid")

    command: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(), description="How the engine is started; a text is split as a shell would"
    )
    resident_command: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(), description="How the program is started that makes a resident agent of it (codex, claude)"
    )
    asks: bool | None = Field(
        default=None, description="Of an agent of your own: whether it asks before it acts"
    )
    modes: dict[Permissions, str] = Field(
        default_factory=dict,
        description="Of an agent of your own: the mode of its sessions, by `permissions`",
    )
    limit: int | None = Field(default=None, ge=1, description="Turns of this engine at once")
    model: str | None = Field(default=None, min_length=1, description="The model of jobs that name none")
    env: Annotated[tuple[EnvEntry, ...], NoDecode] = Field(
        default=(), description="More variables that it is given; a text is split as a shell would"
    )
    config: dict[str, Any] = Field(
        default_factory=dict, description="Laid over the settings file in the home of its runs"
    )
    login_home: Path | None = Field(default=None, description="Where the operator's login files are")

    @field_validator("command", "resident_command", "env", mode="before")
    @classmethod
    def _words(cls, value: Any) -> Any:
        return tuple(shlex.split(value)) if isinstance(value, str) else value

    @field_validator("env")
    @classmethod
    def _not_ours(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in (entry.partition("=")[0] for entry in value):
            if name in OURS:
                raise ValueError(f"{name} is different for each run, and not to be set")
        return value

    @field_validator("login_home")
    @classmethod
    def _login_home(cls, value: Path | None) -> Path | None:
        return value and _absolute(value)


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix="TURNKEEPER_", env_nested_delimiter="__", extra="ignore", validate_default=True
    )

    data_dir: Path = Field(default_factory=default_data_dir)
    skills_dir: Annotated[tuple[Path, ...], NoDecode] = ()
    host: str = Field(default="127.0.0.1", min_length=1)
    port: int = Field(default=9813, ge=0, le=65535)
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    tls_cert: Path | None = None
    tls_key: Path | None = None
    behind_proxy: bool = False
    public_url: str | None = None
    rate_limit: float = Field(default=200, ge=0, le=10**6)
    token: str | None = Field(
        default=None,
        min_length=16,
        pattern=r"^[!-~]+$",
        description="What a header can carry: ASCII, no blanks",
    )
    slots: int = Field(default_factory=lambda: max(4, os.cpu_count() or 1), ge=1)
    sticky_slots: int | None = Field(default=None, ge=1)
    max_queued: int = Field(default=1000, ge=1)
    default_engine: str | None = None
    engines_dir: Path | None = None
    session_timeout_sec: Seconds = 1200
    upload_timeout_sec: Seconds = 3600
    max_upload_mb: int = Field(default=64, ge=1, le=4096)
    min_free_mb: int = Field(default=256, ge=0)
    timeouts: TimeoutSettings = TimeoutSettings()
    retention: RetentionSettings = RetentionSettings()
    sandbox: SandboxSettings = SandboxSettings()
    allow_root: bool = False
    engines: dict[str, EngineSettings] = Field(default_factory=dict)

    @field_validator("skills_dir", mode="before")
    @classmethod
    def _paths(cls, value: Any) -> Any:
        return tuple(part for part in value.split(os.pathsep) if part) if isinstance(value, str) else value

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _hosts(cls, value: Any) -> Any:
        return (
            tuple(part.strip() for part in value.split(",") if part.strip())
            if isinstance(value, str)
            else value
        )

    @field_validator("data_dir", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        if value == "":
            raise ValueError("an empty text would mean whatever folder the service is started in")
        return value

    @field_validator("data_dir")
    @classmethod
    def _data_dir(cls, value: Path) -> Path:
        return _absolute(value)

    @field_validator("engines_dir")
    @classmethod
    def _engines_dir(cls, value: Path | None) -> Path | None:
        return value and _absolute(value)

    @field_validator("tls_cert", "tls_key")
    @classmethod
    def _tls_file(cls, value: Path | None) -> Path | None:
        return value and _absolute(value)

    @field_validator("public_url")
    @classmethod
    def _public_url(cls, value: str | None) -> str | None:
        return value and _site(value)

    @field_validator("skills_dir")
    @classmethod
    def _skills_dir(cls, value: tuple[Path, ...]) -> tuple[Path, ...]:
        return tuple(_absolute(path) for path in value)

    @model_validator(mode="after")
    def _settle(self) -> Settings:
        if self.sticky_slots is None:
            self.sticky_slots = max(1, self.slots - 1)
        if self.tls_key is not None and self.tls_cert is None:
            raise ValueError("a tls_key needs its tls_cert")
        for path in self.sandbox.read:
            if any(data.is_relative_to(way) for data in _ways(self.data_dir) for way in _ways(path)):
                raise ValueError(f"sandbox.read names {path}, and the data directory is in there")
        return self

    @property
    def engine_folder(self) -> Path:
        """Where `turnkeeper engines install` puts them."""
        return self.engines_dir or self.data_dir / "engines"

    @property
    def managed_skills(self) -> Path:
        """Where skills are installed by upload; the folders of `skills_dir` belong to the operator."""
        return self.data_dir / "skills"

    @property
    def skill_folders(self) -> tuple[Path, ...]:
        return self.managed_skills, *(folder for folder in self.skills_dir if folder != self.managed_skills)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, _TomlFile(settings_cls)


def _absolute(path: Path) -> Path:
    try:
        return path.expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(str(error)) from error  # `~nobody/data`


def _shown(path: Path) -> Path:
    """What `sandbox.read` names. Outside's processes and devices would be laid over those of the sandbox."""
    for way in _ways(path):
        if way == Path("/") or any(way.is_relative_to(each) for each in MACHINE):
            raise ValueError(f"{path} would open the sandbox; name the folders that are needed")
    return path


def _ways(path: Path) -> set[Path]:
    """As it is named, and where it leads."""
    return {Path(os.path.normpath(path)), Path(os.path.realpath(path))}


def _site(url: str) -> str:
    """Without a path: the page and its files stand at the top of their host."""
    parts = urlsplit(url.strip())
    is_site = parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
    if not is_site or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("should be scheme and host, such as https://turnkeeper.example.com")
    return f"{parts.scheme}://{parts.netloc}".lower()


class _TomlFile(PydanticBaseSettingsSource):
    """`TURNKEEPER_CONFIG`, else `turnkeeper.toml` in the user's config folder; a missing one is no error."""

    def __call__(self) -> dict[str, Any]:
        named = os.environ.get("TURNKEEPER_CONFIG")
        path = Path(named) if named else user_config_path("turnkeeper") / "turnkeeper.toml"
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            if named:
                raise SettingsInvalid(f"TURNKEEPER_CONFIG names {path}, which does not exist") from None
            return {}
        except (OSError, ValueError) as error:
            raise SettingsInvalid(f"{path} cannot be read as TOML: {error}") from error
        unknown = sorted(set(values) - set(self.settings_cls.model_fields))
        if unknown:
            raise SettingsInvalid(f"{path} has settings that do not exist: {', '.join(unknown)}")
        return values

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False  # all values come at once from __call__


def load_settings(**given: Any) -> Settings:
    """From the command line, the environment and the file, in this order of weight."""
    _refuse_unknown_names()
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        name = "__".join(str(part) for part in first["loc"]).upper()
        value = "(not shown)" if _is_secret(first["loc"], first["input"]) else repr(first["input"])
        raise SettingsInvalid(f"TURNKEEPER_{name} = {value}: {first['msg']}") from error
    except SettingsError as error:
        raise SettingsInvalid(f"{error}: {error.__cause__}") from error


def _is_secret(place: tuple[int | str, ...], value: object) -> bool:
    if place[:1] == ("engines",):
        return isinstance(value, str | list | dict) and not HARMLESS & set(place)
    return SECRET in place


def _refuse_unknown_names() -> None:
    """A misspelled variable would otherwise be a setting that silently does nothing."""
    known = sorted(name.upper() for name in Settings.model_fields)
    names = [name.removeprefix("TURNKEEPER_") for name in os.environ if name.startswith("TURNKEEPER_")]
    whole = {*known, *NOT_SETTINGS}
    unknown = sorted(name for name in names if name not in whole and name.split("__")[0] not in NESTED)
    if unknown:
        raise SettingsInvalid(f"there is no setting TURNKEEPER_{unknown[0]}; known are: {', '.join(known)}")
