"""`Client` and `Run`: the API for programs that wait for their answers."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from turnkeeper.client import calls, discovery
from turnkeeper.client.calls import Call, Page
from turnkeeper.client.errors import ApiError, ClientError
from turnkeeper.client.files import Sources, Upload, landing, opened, packed
from turnkeeper.client.following import Backoff, Following, Loss, Waiting
from turnkeeper.client.key_records import Entry, Key, Me, NewKey
from turnkeeper.client.records import (
    Answered,
    Artifact,
    Attempt,
    Cancellation,
    Engine,
    Event,
    Finding,
    Json,
    Log,
    Question,
    Receipt,
    RunInfo,
    Schemas,
    Skill,
)
from turnkeeper.client.service_records import AnswerLink, Pruned, Secret, SignIn, Status

if TYPE_CHECKING:
    from turnkeeper.client.wire import Wire

T = TypeVar("T")


class Client:
    """The service, as told by `url` and `token`, by the environment, or found on this machine.

    In seconds: `timeout` for an answer; `patience` with a service that cannot be reached, for what waits for a run
    (None: for ever); `silence` after which a stream is taken for dead (the service speaks every 15).
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        timeout: float = 30.0,
        patience: float | None = 60.0,
        silence: float = 45.0,
    ) -> None:
        from turnkeeper.client.wire import Limits, Wire

        self._place = discovery.find(url, token, data_dir)
        self._wire = Wire(self._place, Limits(timeout, silence))
        self._patience = patience

    def __repr__(self) -> str:
        return f"<Client of {self._place}>"

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._wire.close()

    @property
    def url(self) -> str:
        """Where the service is now."""
        return self._place.look().url

    # Runs

    def run(
        self,
        skill: str,
        engine: str | None = None,
        input: Mapping[str, Any] | None = None,  # noqa: A002 (as the API calls it)
        parameter: Mapping[str, Any] | None = None,
        files: Sources | None = None,
        interactive: bool | None = None,
        model: str | None = None,
        permissions: str | None = None,
        idempotency_key: str | None = None,
        **options: Any,
    ) -> Run:
        """Creates a run, with its files; once this returns, it is durable. `options`: other fields of a job."""
        with opened(files or {}) as upload:
            call = calls.create(
                skill,
                upload.names,
                engine=engine,
                input=input,
                parameter=parameter,
                model=model,
                permissions=permissions,
                interactive=interactive,
                idempotency_key=idempotency_key,
                **options,
            )
            run = self.job(self._wire.send(call))
            if upload.parts:
                self._upload(run, upload, is_new=idempotency_key is None)
        return run

    def _upload(self, run: Run, upload: Upload, *, is_new: bool) -> None:
        try:
            self._wire.send(calls.upload(run.id, upload))
        except BaseException as error:
            if is_new:
                with suppress(ClientError):
                    run.cancel()  # nobody would know of it, and it would wait for its files
            elif isinstance(error, ApiError) and error.code in calls.UPLOADED and run.info().files:
                return  # the run of an earlier call with this key, which has them
            raise

    def job(self, run_id: str) -> Run:
        """A run by its id; the service is not asked."""
        return Run(run_id, self._wire, self._patience)

    def jobs(
        self,
        status: str | Sequence[str] | None = None,
        skill_id: str | None = None,
        engine: str | None = None,
        q: str | None = None,
        limit: int | None = None,
    ) -> Generator[RunInfo, None, None]:
        """Newest first, each with its open question; all of them, or `limit`."""
        return _pages(self._wire, calls.jobs(calls.filters(status, skill_id, engine, q), limit))

    def answer_link(
        self,
        run_id: str,
        interaction_id: int | None = None,
        for_: str | None = None,
        expires_in: timedelta | float | None = None,
    ) -> AnswerLink:
        """An address by which somebody without a token answers the open question, once; for 7 days unless given.

        Their answer is recorded as that of `link`, or of `link:` and who it is `for_`.
        """
        call = calls.answer_link(run_id, self.url, interaction_id, for_, expires_in)
        return self._wire.send(call)

    # Skills

    def skills(self) -> list[Skill]:
        """All of them, the broken ones too."""
        return self._wire.send(calls.skills())

    def skill(self, skill_id: str) -> Skill:
        return self._wire.send(calls.skill(skill_id))

    def schemas(self, skill_id: str) -> Schemas:
        return self._wire.send(calls.schemas(skill_id))

    def lint(self, skill_id: str) -> list[Finding]:
        """What its author should know; also of a broken skill."""
        return self._wire.send(calls.lint(skill_id))

    def install_skill(self, path: str | os.PathLike[str], replace: bool = False) -> Skill:
        """From a folder or a zip. A version that is not higher is only taken with `replace`."""
        with packed(path) as archive:
            return self._wire.send(calls.install_skill(archive, replace=replace))

    def remove_skill(self, skill_id: str) -> None:
        """Only one that was installed through the API."""
        self._wire.send(calls.remove_skill(skill_id))

    # The service

    def engines(self) -> list[Engine]:
        return self._wire.send(calls.engines())

    def engine(self, name: str) -> Engine:
        return self._wire.send(calls.engine(name))

    def secrets(self) -> list[Secret]:
        """Their names, and the skills that they are granted to; never a value."""
        return self._wire.send(calls.secrets())

    def set_secret(self, name: str, value: str) -> Secret:
        """New, or in place of the old value; its grants stay."""
        return self._wire.send(calls.set_secret(name, value))

    def remove_secret(self, name: str) -> None:
        self._wire.send(calls.remove_secret(name))

    def grant_secret(self, name: str, skill_id: str) -> Secret:
        return self._wire.send(calls.grant_secret(name, skill_id))

    def revoke_secret(self, name: str, skill_id: str) -> Secret:
        return self._wire.send(calls.revoke_secret(name, skill_id))

    def status(self) -> Status:
        return self._wire.send(calls.status())

    def prune(
        self,
        older_than: timedelta | float | None = None,
        keep_bytes: int | None = None,
        status: str | Sequence[str] | None = None,
        only: str | None = None,
        dry_run: bool = False,
    ) -> Pruned:
        """Removes runs that ended so long ago (in seconds), or the oldest until all of them fit; or both.

        `only`: just their "homes" or "logs". Runs that wait are removed only if `status` names `waiting_user`.
        """
        return self._wire.send(calls.prune(older_than, keep_bytes, status, only, dry_run=dry_run))

    def create_key(
        self,
        name: str,
        scopes: str | Sequence[str],
        skills: Sequence[str] | None = None,
        engines: Sequence[str] | None = None,
        expires: datetime | timedelta | float | None = None,
    ) -> NewKey:
        """A key that may do this much, told once, as `key` of what is returned. `expires`: when, or in so many seconds.

        With `skills` or `engines` it knows no others, and none of their runs.
        """
        return self._wire.send(calls.create_key(name, scopes, skills, engines, expires))

    def keys(self) -> list[Key]:
        """All that ever were; the service's own token is among them."""
        return self._wire.send(calls.keys())

    def revoke_key(self, key: str) -> Key:
        """By id or name, at once and for good; once more does no harm."""
        return self._wire.send(calls.revoke_key(key))

    def me(self) -> Me:
        """What the key, or token, of this client is good for."""
        return self._wire.send(calls.me())

    def journal(self, limit: int | None = None) -> Generator[Entry, None, None]:
        """Who changed keys, skills and the like, newest first; all of it, or `limit` entries."""
        return _pages(self._wire, calls.journal(limit))

    def sign_in(self) -> SignIn:
        """An address that opens the page in a browser without the token or key, once."""
        return self._wire.send(calls.sign_in(self.url))


class Run:
    """A run, by its id. It knows nothing by itself: every method asks the service."""

    def __init__(self, run_id: str, wire: Wire, patience: float | None) -> None:
        self.id = run_id
        self._wire = wire
        self._patience = patience

    def __repr__(self) -> str:
        return f"Run({self.id!r})"

    def info(self, wait: float | None = None) -> RunInfo:
        """As it is now. With `wait`: once it waits for a person or has ended, or after so many seconds, 60 at most."""
        return self._wire.send(calls.info(self.id, wait))

    def request(self) -> Json:
        """What would create the same run again, but for its files."""
        return self._wire.send(calls.request(self.id))

    def cancel(self) -> Cancellation:
        """Ends it; once more does no harm."""
        return self._wire.send(calls.cancel(self.id))

    # Its log

    def events(self, after: int = 0) -> Generator[Event, None, None]:
        """Every event after this number, as it happens, to the last one of the run.

        A lost connection is made again, and a service that restarts is waited for, as long as there is patience.
        """
        log = Following(after, Backoff(self._patience))
        while not log.is_over:
            call = calls.events(self.id, log.cursor)
            log.connect()
            try:
                with self._wire.stream(call) as chunks:
                    for chunk in chunks:
                        yield from log.feed(chunk)
                        if log.is_over:
                            return
                loss = log.cut_off()
            except Loss as error:
                loss = error
            time.sleep(log.backoff.pause(loss, time.monotonic()))

    def history_events(
        self, from_seq: int = 1, to_seq: int | None = None, limit: int | None = None
    ) -> Generator[Event, None, None]:
        """What the log holds so far, both ends included."""
        return _pages(self._wire, calls.history_events(self.id, from_seq, to_seq, limit))

    # Its questions

    def pending(self) -> Question | None:
        """The open one."""
        return self._wire.send(calls.pending(self.id)).question

    def reply(
        self, text: Any, interaction_id: int | None = None, idempotency_key: str | None = None
    ) -> Receipt:
        """Answers the open question, or the one that is named. Any text will do; other JSON is passed on as text."""
        if interaction_id is None:
            interaction_id = calls.open_question(self.id, self._wire.send(calls.pending(self.id)))
        return self._wire.send(calls.reply(self.id, text, interaction_id, idempotency_key))

    def history(self) -> list[Answered]:
        """Every question so far, with its answer."""
        return self._wire.send(calls.history(self.id))

    # Its outcome

    def result(self, timeout: float | None = None) -> Json:
        """Waits for the end. Raises RunFailed, RunCanceled, WaitingForPerson, or TimeoutError after `timeout`."""
        waiting = Waiting(timeout)
        while True:
            call = calls.info(self.id, waiting.share(calls.LONGEST_WAIT))
            info = self._wire.send(call, waiting.share(self._patience))
            if info.status == "succeeded":
                return self._wire.send(calls.result(self.id), waiting.share(self._patience))
            if info.is_waiting:
                info = msgspec.structs.replace(info, pending=self.pending())
            waiting.check(info)

    def artifacts(self) -> list[Artifact]:
        return self._wire.send(calls.artifacts(self.id))

    def download(self, path: str, to: str | os.PathLike[str]) -> Path:
        """One file of the workspace, into a folder or as a file; answers where it is."""
        return self._saved(calls.artifact(self.id, path), to, path.rpartition("/")[2])

    def bundle(self, to: str | os.PathLike[str]) -> Path:
        """Result and artifacts of a run that has ended, as one zip, into a folder or as a file."""
        return self._saved(calls.bundle(self.id), to, f"{self.id}.zip")

    def _saved(self, call: Call[bytes], to: str | os.PathLike[str], name: str) -> Path:
        with landing(to, name) as (path, file):
            self._wire.fetch(call, file)
        return path

    def logs(self) -> list[Log]:
        """The raw output that there is, by attempt, try and stream."""
        return self._wire.send(calls.logs(self.id))

    def log(
        self,
        attempt: int = 1,
        try_number: int = 1,
        stream: str = "stdout",
        offset: int = 0,
        length: int | None = None,
    ) -> bytes:
        """What the engine wrote, byte by byte."""
        return self._wire.send(calls.log(self.id, attempt, try_number, stream, offset, length))

    def attempts(self) -> list[Attempt]:
        """Every try of every turn, with what was seen and decided."""
        return self._wire.send(calls.attempts(self.id))


def _pages(wire: Wire, first: Call[Page[T]]) -> Generator[T, None, None]:
    call: Call[Page[T]] | None = first
    while call is not None:
        page = wire.send(call)
        yield from page.found
        call = page.next
