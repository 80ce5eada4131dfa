"""Sets the stage for a turn: the run's folder, its frozen skill, the plan and the words that open it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from turnkeeper.core import permission
from turnkeeper.core.contract import Contract
from turnkeeper.core.errors import Code, TurnkeeperError, Warn
from turnkeeper.core.run import Attempt, Interaction, NextTurn, Run, RunWarning, SandboxKind
from turnkeeper.core.skill import Skill
from turnkeeper.engines.base import Engine, Launch, TurnPlan, password_in, scratch, sessions_in
from turnkeeper.engines.census import SHORT
from turnkeeper.engines.sandbox import NONE, Sandbox
from turnkeeper.engines.spawn import Command, digests
from turnkeeper.runtime.secrecy import Secrecy
from turnkeeper.runtime.secrets import Secrets
from turnkeeper.runtime.session import Session, Start
from turnkeeper.skills import artifacts, patch, prompt, schema
from turnkeeper.skills.image import Images
from turnkeeper.skills.output import Files
from turnkeeper.skills.package import Shelf
from turnkeeper.skills.workspace import RunFolder
from turnkeeper.store.base import Reads

MB = 1024 * 1024
SESSION_LARGE, SESSION_MAX = 100 * MB, 1024 * MB
"""Bytes that an engine keeps of its sessions: a session of a long day is one hundredth of the first."""


class StageFailed(TurnkeeperError):
    """The turn cannot be started; the run fails with this code."""

    def __init__(self, code: Code, message: str, *, is_passing: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.is_passing = is_passing
        """The machine was short of something: the same may work a moment later."""


@contextmanager
def staging() -> Iterator[None]:
    """Whatever goes wrong before the process exists is a reason that the run can name."""
    try:
        yield
    except StageFailed:
        raise
    except TurnkeeperError as error:
        raise StageFailed(error.code, error.message, is_passing=_is_short(error.__cause__)) from error
    except (OSError, ValueError) as error:  # the disk refuses, or the folder is not as we left it
        message = f"the run's folder cannot be prepared: {error}"
        raise StageFailed(Code.STORAGE_UNAVAILABLE, message, is_passing=_is_short(error)) from error


def _is_short(error: BaseException | None) -> bool:
    return isinstance(error, OSError) and error.errno in SHORT


@dataclass(frozen=True, slots=True)
class Fresh:
    """A process that has only to be started: what it needs is there, and what it is lent."""

    session: Session
    words: bytes
    """What it is begun with."""
    grown: RunWarning | None
    """What the session that is to be resumed has come to."""


@dataclass(frozen=True, slots=True)
class Scene:
    engine: Engine
    plan: TurnPlan
    prompt: str
    folder: RunFolder
    skill_id: str
    secrets: tuple[str, ...] = ()
    """The names of those that the process is given."""
    fresh: Fresh | None = None
    """None: there is a process to go on with."""


class Stage:
    def __init__(
        self,
        store: Reads,
        shelf: Shelf,
        engines: Mapping[str, Engine],
        runs_dir: Path,
        *,
        sandbox: Sandbox = NONE,
        secrecy: Secrecy | None = None,
        secrets: Secrets | None = None,
    ) -> None:
        """Without secrets it is for looking at runs, and not for playing them."""
        self.sandbox = sandbox
        self.secrecy = secrecy or Secrecy()
        self._secrets = secrets
        self._store = store
        self._shelf = shelf
        self._engines = engines
        self._runs_dir = runs_dir
        self._images = Images()
        self.lent = runs_dir.parent / "lent"
        """Notes on the logins that processes have been lent."""

    def folder(self, run_id: str) -> RunFolder:
        return RunFolder(self._runs_dir / run_id)

    async def set(
        self, run: Run, attempt: Attempt, *, is_fresh: bool, heard: Interaction | None = None
    ) -> Scene:
        """`is_fresh`: it needs a process. `heard`: the last answer, as far as is known. Files are touched on a thread:
        a slow disk must not stop the event loop."""
        number, is_again = attempt.attempt_number, attempt.next_turn is NextTurn.CONTINUE
        answered = heard if heard is not None and heard.attempt_number < number else None
        if answered is None and number > 1:
            answered = await self._store.answered_before(run.id, number)
        asked = await self._store.interactions(run.id) if is_again and run.questions else []
        later = [each for each in asked if each.attempt_number == number]
        words = partial(self._words, run, attempt, answered, later)
        return await asyncio.to_thread(self._set, run, attempt, words, is_fresh)

    async def strike(self, scene: Scene) -> None:
        """It was set, and nothing is played on it."""
        if scene.fresh is not None:
            await asyncio.to_thread(scene.fresh.session.move_out)

    def files(self, scene: Scene, contract: Contract) -> Files:
        """The artifacts as the turn left them; a skill that neither declares nor reports any is spared the look.
        Blocking."""
        rules = contract.artifacts
        if not rules and contract.output_schema is not None:
            return Files()
        found = artifacts.find(scene.plan.workspace, rules)
        there = tuple(self.secrecy.hide_text(file.path) for file in found if not file.is_link)
        return Files(there, tuple(artifacts.missing(rules, found)))

    def keep_words(self, scene: Scene, run: Run, words: bytes) -> None:
        """What the turn is begun with, beside what it answers: with it the turn can be played by hand. Blocking."""
        scene.folder.raw(run.attempt_number, run.try_number, "stdin").write_bytes(words)

    def plan(self, run: Run) -> TurnPlan:
        folder, job = self.folder(run.id), run.job
        home = folder.home
        return TurnPlan(
            profile=job.profile.kind,
            mode=job.mode,
            workspace=folder.workspace,
            home=home,
            skill_dir=home / self.engine(job.engine).skills_dir / job.skill_id,
            session=run.handle,
            used=run.usage,
            model=job.model,
            permissions=job.permissions,
            input=run.input,
            parameter=job.parameter,
        )

    def knows(self, engine: str) -> bool:
        return engine in self._engines

    def engine(self, name: str) -> Engine:
        try:
            return self._engines[name]
        except KeyError:
            raise StageFailed(
                Code.ENGINE_NOT_FOUND, f"the engine {name!r} is not known here any more"
            ) from None

    def _set(self, run: Run, attempt: Attempt, words: Callable[[Path], str], is_fresh: bool) -> Scene:
        folder = self.folder(run.id)
        with staging():
            plan, is_new = self.plan(run), folder.make()
            is_begun = attempt.attempt_number > 1 or attempt.next_turn not in (
                NextTurn.START,
                NextTurn.RESTART,
            )
            if not (is_new or is_begun):
                folder.clear_workspace()  # no engine has been there yet
            if run.handle is None:
                self._freeze(run, folder, plan.skill_dir)
            scene = Scene(
                self.engine(run.job.engine),
                plan,
                words(plan.skill_dir),
                folder,
                skill_id=run.job.skill_id,
                secrets=run.job.contract.secrets,
            )
            return replace(scene, fresh=self._fresh(scene, run)) if is_fresh else scene

    def _fresh(self, scene: Scene, run: Run) -> Fresh:
        handle = scene.plan.session
        if handle is not None and not handle.loadable:
            gone = "the resident process is gone, and its session cannot be loaded"
            raise StageFailed(Code.INTERACTION_PROCESS_LOST, gone)
        grown = _weighed(scene)
        session = Session(self._start(scene), scene.engine.dialect(scene.plan), run.job.timeouts)
        words = session.dialect.begin(scene.prompt)
        self.keep_words(scene, run, words)
        try:
            session.move_in()
        except BaseException:
            session.move_out()
            raise
        return Fresh(session, words, grown)

    def _freeze(self, run: Run, folder: RunFolder, at: Path) -> None:
        """Before the session's first word. Later it is the agent's own: what it did to its copy stays done."""
        job = run.job
        where = patch.Where(folder.workspace, at)
        # A large skill takes its time, and nobody waits for it: if it was replaced meanwhile, it is copied again.
        skill, copied = None, self._same_skill(run)
        while skill is not copied:
            skill = copied
            with self._unless_replaced(run, skill):
                folder.copy_skill(
                    Path(skill.root),
                    self._images,
                    lambda text: patch.patched(text, job.contract, job.mode, where),
                )
            copied = self._same_skill(run)
        folder.place_skill(at)

    @contextmanager
    def _unless_replaced(self, run: Run, skill: Skill) -> Iterator[None]:
        try:
            yield
        except OSError:
            if self._same_skill(run) is skill:
                raise

    def _same_skill(self, run: Run) -> Skill:
        """The input was checked against one version; another may want something else, and so may the same one, if its
        author replaced it without a new number."""
        job = run.job
        skill = self._shelf.get(job.skill_id)
        if skill.version != job.skill_version:
            raise StageFailed(
                Code.SKILL_CHANGED,
                f"skill {skill.id!r} is now version {skill.version}, the job was accepted for {job.skill_version}",
            )
        if skill.contract(job.engine) != job.contract:
            raise StageFailed(
                Code.SKILL_CHANGED,
                f"the schemas, artifacts or prompts of skill {skill.id!r} have changed since the job was accepted",
            )
        if errors := self._misfits(run, skill):
            raise StageFailed(
                Code.SKILL_CHANGED,
                f"the schemas of skill {skill.id!r} have changed, and the job no longer fits: {'; '.join(errors)}",
            )
        return skill

    def _misfits(self, run: Run, skill: Skill) -> list[str]:
        own = self.engine(run.job.engine).own_parameters
        parameter = {key: value for key, value in run.job.parameter.items() if key not in own}
        held_to = (("input", skill.input_schema, run.input), ("parameter", skill.parameter_schema, parameter))
        return [
            error
            for what, wanted, given in held_to
            if wanted is not None
            for error in schema.below(what, schema.errors(wanted, given))
        ]

    def _start(self, scene: Scene) -> Start:
        launch = self._with_secrets(scene, scene.engine.launch(scene.plan))
        scene.folder.write_home(launch.files)
        note = self.lent / f"{scene.folder.root.name}.json"
        start = start_of(launch, scene.plan, note, self.sandbox)
        self.secrecy.learn(start.command.secrets)
        command = replace(start.command, known=self.secrecy.known)
        return replace(start, command=command, record=self.secrecy.hide_json(start.record))

    def _with_secrets(self, scene: Scene, launch: Launch) -> Launch:
        """The values of this moment, and only in the environment: the record of the turn has the names."""
        if not scene.secrets:
            return launch
        if self._secrets is None:
            raise StageFailed(Code.SECRET_NOT_GRANTED, "there are no secrets here to be given")
        given = self._secrets.given(scene.skill_id, scene.secrets)
        if taken := sorted(given.keys() & launch.env.keys()):
            raise StageFailed(
                Code.SECRET_NOT_GRANTED,
                f"{', '.join(taken)}: {scene.engine.name} is started with a variable of that name already; "
                "give the secret another one",
            )
        sources = {name: name for name in given}
        return replace(launch, env={**launch.env, **given}, secrets={**launch.secrets, **sources})

    @staticmethod
    def _words(
        run: Run,
        attempt: Attempt,
        answered: Interaction | None,
        later: Sequence[Interaction],
        skill_dir: Path,
    ) -> str:
        """`later`: what was asked in an earlier try of this turn; what a person said then may not have been heard."""
        if attempt.attempt_number == 1 or answered is None or answered.answer is None:
            words = prompt.start(run, skill_dir)
        else:
            words = prompt.reply(answered.answer.response)
        if attempt.next_turn is not NextTurn.CONTINUE:
            return words
        said = [permission.decide(each.question, each.answer).words for each in later if each.answer]
        return prompt.cut_off("\n\n".join([words, *filter(None, said)]))


def _weighed(scene: Scene) -> RunWarning | None:
    """What the session that is to be resumed has grown to: a CLI reads all of it, each time."""
    if scene.plan.session is None:
        return None
    engine = scene.engine
    size = scene.folder.home_size(sessions_in(engine), engine.skills_dir)
    told = f"what {engine.name} keeps of its session has grown to {size // MB} MB"
    if size > SESSION_MAX:
        raise StageFailed(Code.SESSION_TOO_LARGE, f"{told}; at most {SESSION_MAX // MB} MB are resumed")
    return RunWarning(Warn.SESSION_LARGE, told) if size > SESSION_LARGE else None


def start_of(launch: Launch, plan: TurnPlan, note: Path, sandbox: Sandbox) -> Start:
    """Blocking: what the sandbox shows is looked for."""
    # Whoever built the environment: an address with a password in it is a secret.
    addresses = {name: name for name, value in launch.env.items() if password_in(value) is not None}
    launch = replace(launch, secrets={**addresses, **launch.secrets})
    values = [launch.env[name] for name in launch.secrets]
    secrets = frozenset(text for value in values for text in (value, password_in(value)) if text)
    return Start(
        command=Command(launch.argv, launch.env, plan.workspace, secrets, sandbox.words(launch, plan)),
        record=_record(launch, plan, sandbox),
        login_files=launch.login_files,
        home=plan.home,
        scratch=scratch(plan.home),
        note=note,
        limits=sandbox.limits if sandbox.kind is not SandboxKind.OFF else None,
    )


def _record(launch: Launch, plan: TurnPlan, sandbox: Sandbox) -> dict[str, Any]:
    """For the attempt, so that a person can start the same turn by hand: everything but the secrets. Blocking."""
    return {
        "argv": list(launch.argv),
        "cwd": str(plan.workspace),
        "sandbox": sandbox.kind.value,
        "env": {name: None if name in launch.secrets else value for name, value in launch.env.items()},
        "secrets": dict(launch.secrets),
        "engine_version": launch.version,
        "program": digests(launch.program or launch.argv[:1], launch.env),
        "login_files": {name: str(path) for name, path in launch.login_files.items()},
    }
