"""What the engines that are CLIs share: a program that is found, a process for each turn, a private home.

What differs has one file for each engine: the words of its command line, and the lines that come back. What dialects
share is in `dialect.py`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from turnkeeper.core.errors import EngineNotReady, InvalidRequest, ModelUnknown, SettingsInvalid
from turnkeeper.core.skill import Skill
from turnkeeper.core.waiting import ProfileKind
from turnkeeper.engines import programs
from turnkeeper.engines.acp import PLAIN, AcpDialect, Manners
from turnkeeper.engines.base import (
    Dialect,
    EngineConfig,
    Launch,
    Login,
    LoginKind,
    Readiness,
    TurnPlan,
    private_env,
)
from turnkeeper.engines.dialect import SESSION_ID
from turnkeeper.engines.programs import Adapter, Missing, Package, Program

ROOT = "the service runs as root, and an agent that is root can harm the whole machine"
ROOT_FIX = "run the service as an ordinary user, or set TURNKEEPER_ALLOW_ROOT=1"
BOTH: tuple[ProfileKind, ...] = (ProfileKind.RESUMABLE, ProfileKind.STICKY)
"""Of a CLI that can be a resident agent, too."""
_SECRET_NAME = re.compile(r"KEY|TOKEN(?!S)|SECRET|PASS|CREDENTIAL|AUTH(?!OR)", re.IGNORECASE)


class CliEngine:
    """An engine that is a CLI with a process for each turn. Subclasses have its names, its words and its dialect."""

    name: str
    skills_dir: str
    sessions_dir = ""
    package: ClassVar[Package | None] = None
    """Where it comes from."""
    install: ClassVar[str] = ""
    """What to run, or to do, if it is not there and has no package."""
    keys: ClassVar[tuple[str, ...]] = ()
    """Variables of the service's environment that it is given, each of them a login."""
    addresses: ClassVar[tuple[str, ...]] = ()
    """Variables that it is given as well, and that are no secrets: where a key is valid, which model it is for."""
    login_files: ClassVar[tuple[str, ...]] = ()
    """What a person who logs in leaves in the home; without the first, nobody has."""
    own_logins: ClassVar[tuple[str, ...]] = ()
    """Settings and variables by which an operator brings a login of another kind: a provider, a cloud."""
    login_command: ClassVar[str] = ""
    """How a person logs in."""
    settings_file: ClassVar[str] = ""
    """Where it reads its settings, inside the home."""
    empty_files: ClassVar[Mapping[str, bytes]] = {}
    """Other files that it would read settings from: an agent could leave some there that send the key elsewhere."""
    switches: ClassVar[Mapping[str, str]] = {}
    """Variables that keep it from updating itself, reporting home or asking for somebody."""
    own_secrets: ClassVar[tuple[str, ...]] = ()
    """Variables of ours that nobody may see."""
    resident: ClassVar[type[AcpDialect]] = AcpDialect
    """What understands it as a resident agent."""
    adapter: ClassVar[Adapter | None] = None
    """The program that makes it one, where it cannot be one itself."""

    is_demo = False
    profiles: tuple[ProfileKind, ...] = (ProfileKind.RESUMABLE,)
    asks = False
    own_parameters: frozenset[str] = frozenset()
    models: tuple[str, ...] = ()

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        entries = (entry.partition("=") for entry in config.env)
        self._given = {name: value if equals else None for name, equals, value in entries}
        """The operator's own variables; None: as the service has it."""
        self._refuse_unused()
        try:
            self.dump(config.config)
        except (TypeError, ValueError) as error:
            raise SettingsInvalid(f"engines.{self.name}.config cannot be written for it: {error}") from error
        self.default_model = config.model

    def find(self, kind: ProfileKind | None = None) -> Program | Missing:
        """What is started: the CLI itself, or for a resident its adapter. Without the CLI that is of no use."""
        cli = self._find_cli()
        if isinstance(cli, Missing) or not self._is_adapted(kind) or self.adapter is None:
            return cli
        if len(cli.command) > 1:
            reason = f"a resident {self.name} needs a command of one word, and engines.{self.name}.command has more"
            return Missing(reason, f"set engines.{self.name}.command to a single program", cli.path)
        return programs.find_adapter(self.adapter, self.name, self._config)

    def readiness(self, kind: ProfileKind | None = None) -> Readiness:
        program, login = self.find(kind), self.login()
        if self._config.refuses_root and isinstance(program, Program):
            return Readiness(
                ready=False,
                path=program.path,
                version=program.version,
                login=login,
                reason=ROOT,
                fix=ROOT_FIX,
            )
        if isinstance(program, Missing):
            return Readiness(
                ready=False, path=program.path, login=login, reason=program.reason, fix=program.fix
            )
        found = Readiness(ready=True, path=program.path, version=program.version, login=login)
        if login.kind is LoginKind.NONE:
            reason = f"nobody is logged in to {self.name}, and no key is set"
            return replace(found, ready=False, reason=reason, fix=self._login_fix())
        warning, fix = self._untested(program, kind)
        return replace(found, warning=warning, fix=fix)

    def login(self) -> Login:
        keys = [name for name in (*self.keys, *self._given) if self._is_key(name) and self.value(name)]
        if keys:
            return Login(LoginKind.KEY, keys[0])
        path = self._login_home / self.login_files[0] if self.login_files else None
        if path is not None and os.path.isfile(path):  # noqa: PTH113 (a folder that is closed to us has none)
            return Login(LoginKind.FILE, str(path))
        given = [name for name in self._given if self.value(name)]
        if {*self._config.config, *given} & {*self.own_logins} or any(map(self._is_secret, given)):
            return Login(LoginKind.SETTINGS, f"engines.{self.name}")
        return Login(LoginKind.NONE if self.keys or self.login_files else LoginKind.NOT_NEEDED)

    def require(self, skill: Skill, parameter: Mapping[str, Any]) -> None:
        """A CLI takes any skill."""

    def launch(self, plan: TurnPlan) -> Launch:
        if plan.model is not None and plan.model.startswith("-"):
            raise ModelUnknown(f"{plan.model!r} is no model: {self.name} would take it for an option")
        is_resident = plan.profile is ProfileKind.STICKY
        # A resident is told its session by the protocol, and not by a word of its command line.
        if plan.session is not None and not (is_resident or SESSION_ID.fullmatch(plan.session.session_id)):
            raise InvalidRequest(f"{plan.session.session_id!r} cannot be the id of a session of {self.name}")
        if self._config.refuses_root:
            raise EngineNotReady(f"{self.name} is not ready: {ROOT}. To fix it: {ROOT_FIX}")
        program, login = self.find(plan.profile), self.login()
        if isinstance(program, Missing):
            raise EngineNotReady(f"{self.name} is not ready: {program.reason}. To fix it: {program.fix}")
        given = self.variables(self._variables())
        ours = {**self.switches, **self.places(plan.home)}
        if is_resident:
            ours |= {**self._adapted(), **self.resident_variables(plan)}
        # The operator's own words come last: whoever names a switch of ours means it.
        env = private_env(plan.home, {**ours, **given})
        return Launch(
            argv=(*program.command, *(self.resident_words(plan) if is_resident else self.words(plan))),
            env=env,
            files=self._files(login, plan),
            secrets={name: self._source(name) for name in env if self._is_secret(name)},
            login_files=self._login_files() if login.kind is LoginKind.FILE else {},
            version=self._version(program, plan.profile),
            reads=self._reads(program, plan.profile),
            program=program.command,
        )

    # What subclasses say

    def words(self, plan: TurnPlan) -> Sequence[str]:
        """The command line after the program. The prompt is no part of it: that goes in by stdin."""
        raise NotImplementedError

    def headless(self, plan: TurnPlan) -> Dialect:
        """What understands its lines; a new one for each turn."""
        raise NotImplementedError

    def resident_words(self, plan: TurnPlan) -> Sequence[str]:
        """The command line of a resident agent, after the program."""
        return ()

    def resident_variables(self, plan: TurnPlan) -> Mapping[str, str]:
        """More of them, for a resident agent."""
        return {}

    def resident_settings(self, plan: TurnPlan) -> Mapping[str, Any]:
        """Laid over its settings, where a resident agent needs others."""
        return {}

    def resident_files(self, plan: TurnPlan) -> Mapping[str, bytes]:
        """More of them in the home of a resident agent."""
        return {}

    def manners(self, plan: TurnPlan) -> Manners:
        """Of a resident agent."""
        return PLAIN

    def places(self, home: Path) -> Mapping[str, str]:
        """Variables that point into the home."""
        return {}

    def variables(self, given: Mapping[str, str]) -> Mapping[str, str]:
        """Keys, addresses and the operator's own, by the names that it really reads."""
        return given

    def settings(self, login: Login) -> Mapping[str, Any]:
        """What stands in its settings file, before the operator's own are laid over it."""
        return {}

    def dump(self, settings: Mapping[str, Any]) -> bytes:
        """In the form that it reads."""
        return json.dumps(settings, indent=2).encode()

    # What all have in common

    def dialect(self, plan: TurnPlan) -> Dialect:
        if plan.profile is ProfileKind.STICKY:
            return self.resident(plan, self.manners(plan))
        return self.headless(plan)

    def _find_cli(self) -> Program | Missing:
        return programs.find(self.name, self.package, self._config, self.install)

    def _reads(self, program: Program, kind: ProfileKind) -> tuple[str, ...]:
        """What we have installed, and for an adapter the CLI that it starts."""
        managed = self._config.managed
        own = [str(managed)] if managed is not None and managed.is_dir() else []
        cli = self._find_cli() if self._is_adapted(kind) else program if self.adapter else None
        return (*own, *((cli.path, *cli.command) if isinstance(cli, Program) else ()))

    def _version(self, program: Program, kind: ProfileKind) -> str | None:
        cli = self._find_cli() if self._is_adapted(kind) else program
        if self.adapter is None or cli is program or isinstance(cli, Missing):
            return program.version
        return f"{cli.version} by {self.adapter.program} {program.version}"

    def _is_adapted(self, kind: ProfileKind | None) -> bool:
        return self.adapter is not None and kind is ProfileKind.STICKY

    def _adapted(self) -> dict[str, str]:
        cli = self._find_cli() if self.adapter else None
        if self.adapter is None or not isinstance(cli, Program):
            return {}
        return {self.adapter.variable: cli.path if cli.is_configured else cli.command[0]}

    def _refuse_unused(self) -> None:
        for name in ("asks", "modes", *(() if self.adapter else ("resident_command",))):
            if getattr(self._config, name) not in (None, (), {}):
                raise SettingsInvalid(f"engines.{self.name}.{name}: {self.name} is known, and takes none")

    @property
    def secrets(self) -> frozenset[str]:
        """The values that it would be given now and nobody may see."""
        given = self.variables(self._variables())
        return frozenset(value for name, value in given.items() if self._is_secret(name))

    @property
    def own_names(self) -> frozenset[str]:
        """Variables that mean something to it."""
        return frozenset((*self.keys, *self.addresses, *self.own_secrets, *self.switches, *self._given))

    def value(self, name: str) -> str | None:
        """Of a variable that it is given, if that has one."""
        given = self._given.get(name)
        return (os.environ.get(name) if given is None else given) or None

    def _variables(self) -> dict[str, str]:
        found = {name: self.value(name) for name in (*self.keys, *self.addresses, *self._given)}
        return {name: value for name, value in found.items() if value}

    @property
    def _login_home(self) -> Path:
        return self._config.login_home or Path(os.path.expanduser("~"))  # noqa: PTH111 (never raises)

    def _is_key(self, name: str) -> bool:
        """One of its own, or one that the operator's configuration refers to."""
        return name in self.keys or (
            self._is_secret(name) and name in json.dumps(dict(self._config.config), default=str)
        )

    def _is_secret(self, name: str) -> bool:
        is_known = name in self.keys or name in self.own_secrets
        return is_known or (name in self._given and bool(_SECRET_NAME.search(name)))

    def _source(self, name: str) -> str:
        """Where its value comes from: a key may be given under another name than the operator's."""
        given = self._variables()
        value = self.variables(given).get(name)
        return name if name in given else next((each for each in given if given[each] == value), name)

    def tool_servers(self) -> str:
        """Those that the operator configured, for a CLI that would take others from a file in the workspace."""
        known = self._config.config.get("mcpServers")
        return ",".join(known) if isinstance(known, Mapping) and known else "none"

    def _login_files(self) -> dict[str, Path]:
        paths = {name: self._login_home / name for name in self.login_files}
        return {name: path for name, path in paths.items() if os.path.isfile(path)}  # noqa: PTH113

    def _files(self, login: Login, plan: TurnPlan) -> dict[str, bytes]:
        """Also where there is nothing to say: one that an agent left there would speak instead."""
        is_resident = plan.profile is ProfileKind.STICKY
        ours = _laid_over(self.settings(login), self.resident_settings(plan) if is_resident else {})
        settings = _laid_over(ours, self._config.config)
        own = {self.settings_file: self.dump(settings)} if self.settings_file else {}
        return {**self.empty_files, **own, **(self.resident_files(plan) if is_resident else {})}

    def _login_fix(self) -> str:
        ways = [f"export {self.keys[0]}=... before the service starts"] if self.keys else []
        cli = self._find_cli()
        if self.login_command and isinstance(cli, Program):
            name, *words = self.login_command.split()
            command = shlex.join([*([name] if shutil.which(name) else cli.command), *words])
            home = self._config.login_home
            ways += [f"HOME={shlex.quote(str(home))} {command}" if home else command]
        return ", or: ".join(ways) or f"set engines.{self.name}.env to a variable with a key"

    def _untested(self, program: Program, kind: ProfileKind | None) -> tuple[str | None, str | None]:
        """What is to be known of its version, and what would do away with that. Behind an adapter is the CLI itself."""
        if self.adapter is None or not self._is_adapted(kind):
            return self._tested(self.name, self.package, program, "command")
        adapted = self._tested(self.adapter.program, self.adapter.package, program, "resident_command")
        return adapted if adapted[0] else self._tested(self.name, self.package, self._find_cli(), "command")

    def _tested(
        self, name: str, package: Package | None, program: Program | Missing, setting: str
    ) -> tuple[str | None, str | None]:
        if package is None or isinstance(program, Missing) or program.version == package.version:
            return None, None
        told = program.version
        which = f"{name} {told}" if told else f"this {name}, which does not tell its version,"
        other = f"set engines.{self.name}.{setting} to another program, or leave it away"
        fix = other if program.is_configured else self._config.install_command(self.name)
        return f"{which} was not tested with this Turnkeeper; {package.version} was", fix


def _laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for name, value in above.items():
        inside = merged.get(name)
        both = isinstance(inside, Mapping) and isinstance(value, Mapping)
        merged[name] = _laid_over(inside, value) if both else value  # type: ignore[arg-type]
    return merged


def option(name: str, value: str | None) -> tuple[str, ...]:
    return () if value is None else (name, value)
