"""Every call of the API, once, as a record: what is sent, how the answer is read, whether it may be sent again.

`wire.py` sends them.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import IO, Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from turnkeeper.client import key_records, records, service_records
from turnkeeper.client.errors import ApiError
from turnkeeper.client.files import Part, Upload
from turnkeeper.client.records import Json, decoded

T = TypeVar("T")
Params = tuple[tuple[str, str], ...]

JOBS_PAGE, EVENTS_PAGE, JOURNAL_PAGE = 100, 1000, 200
LONGEST_WAIT = 60
"""Seconds that the service holds an answer back at most."""
UNPACKING_SEC = 60.0
"""Files are written and checked before the service says that it has them."""
PRUNING_SEC = 3600.0
"""A hundred thousand folders take their time."""
UPLOADED = frozenset({"UPLOAD_NOT_EXPECTED"})


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    method: str
    path: str
    parse: Callable[[bytes], T]
    params: Params = ()
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    """JSON."""
    parts: tuple[Part, ...] = ()
    """Of a multipart body, instead."""
    is_safe: bool = True
    """Sent twice, it does what it does once."""
    done: frozenset[str] = frozenset()
    """Refusals of a second try by which one knows that the first was heard."""
    wait: float = 0.0
    """Seconds that the answer may take on top of the usual."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    found: tuple[T, ...]
    next: Call[Page[T]] | None


# Runs


def create(
    skill_id: str,
    names: Mapping[str, str | list[str]],
    *,
    interactive: bool | None,
    idempotency_key: str | None,
    input: Mapping[str, Any] | None,  # noqa: A002 (as the API calls it)
    **fields: Any,
) -> Call[str]:
    """What is None is left to the service. The key makes a second try find the run of the first."""
    if interactive is not None and "execution_mode" in fields:
        raise TypeError("give either interactive or execution_mode")
    mode = {None: None, True: "interactive", False: "auto"}[interactive]
    body = {
        "skill_id": skill_id,
        "input": {**names, **(input or {})} or None,
        "execution_mode": mode,
        **fields,
    }
    return Call(
        "POST",
        "/v1/jobs",
        lambda answer: decoded(answer, _Created).run_id,
        headers=(("Idempotency-Key", idempotency_key or _key()),),
        body=_json({name: value for name, value in body.items() if value is not None}),
    )


def upload(run_id: str, files: Upload) -> Call[None]:
    path = _job(run_id, "upload")
    return Call("POST", path, _ignored, parts=files.parts, done=UPLOADED, wait=UNPACKING_SEC)


def jobs(params: Params, limit: int | None, cursor: str | None = None) -> Call[Page[records.RunInfo]]:
    def parse(answer: bytes) -> Page[records.RunInfo]:
        told = decoded(answer, _Jobs)
        left = None if limit is None else limit - len(told.jobs)
        is_more = told.next_cursor is not None and (left is None or left > 0)
        return Page(told.jobs, jobs(params, left, told.next_cursor) if is_more else None)

    size = JOBS_PAGE if limit is None else min(limit, JOBS_PAGE)
    paging = _params(limit=size, cursor=cursor)
    return Call("GET", "/v1/jobs", parse, params=(*params, *paging))


def filters(
    status: str | Sequence[str] | None, skill_id: str | None, engine: str | None, q: str | None
) -> Params:
    states = (status,) if isinstance(status, str) else status or ()
    return (*(("status", state) for state in states), *_params(skill_id=skill_id, engine=engine, q=q))


def info(run_id: str, wait: float | None = None) -> Call[records.RunInfo]:
    if wait is None:
        return Call("GET", _job(run_id), _reads(records.RunInfo))
    seconds = math.ceil(min(max(wait, 0), LONGEST_WAIT))
    prefer = (("Prefer", f"wait={seconds}"),)
    return Call("GET", _job(run_id), _reads(records.RunInfo), headers=prefer, wait=seconds)


def request(run_id: str) -> Call[Json]:
    return Call("GET", _job(run_id, "request"), _reads(Json))


def cancel(run_id: str) -> Call[records.Cancellation]:
    return Call("POST", _job(run_id, "cancel"), _reads(records.Cancellation))


def events(run_id: str, after: int) -> Call[bytes]:
    headers = (("Accept", "text/event-stream"), ("Last-Event-ID", str(after)))
    return Call("GET", _job(run_id, "events"), bytes, headers=headers)


def history_events(
    run_id: str, from_seq: int, to_seq: int | None, limit: int | None
) -> Call[Page[records.Event]]:
    def parse(answer: bytes) -> Page[records.Event]:
        told = decoded(answer, _Events)
        left = None if limit is None else limit - len(told.events)
        is_more = told.next_from_seq is not None and (left is None or left > 0)
        return Page(
            told.events, history_events(run_id, told.next_from_seq or 1, to_seq, left) if is_more else None
        )

    size = EVENTS_PAGE if limit is None else min(limit, EVENTS_PAGE)
    params = _params(from_seq=from_seq, to_seq=to_seq, limit=size)
    return Call("GET", _job(run_id, "events", "history"), parse, params=params)


# Questions


@dataclass(frozen=True, slots=True)
class Asked:
    status: str
    question: records.Question | None


def pending(run_id: str) -> Call[Asked]:
    def parse(answer: bytes) -> Asked:
        told = decoded(answer, _Pending)
        return Asked(told.status, told.pending)

    return Call("GET", _job(run_id, "interaction", "pending"), parse)


def open_question(run_id: str, asked: Asked) -> int:
    """The one that a reply is for; without any, what the service would say to a reply."""
    if asked.question is not None:
        return asked.question.interaction_id
    message = f"run {run_id} is {asked.status} and waits for no reply"
    raise ApiError("RUN_NOT_WAITING", message, 409, {"state": asked.status})


def reply(run_id: str, text: Any, interaction_id: int, idempotency_key: str | None) -> Call[records.Receipt]:
    body = {
        "interaction_id": interaction_id,
        "response": text,
        "idempotency_key": idempotency_key or _key(),
    }
    return Call("POST", _job(run_id, "interaction", "reply"), _reads(records.Receipt), body=_json(body))


def answer_link(
    run_id: str, url: str, interaction_id: int | None, for_: str | None, expires_in: timedelta | float | None
) -> Call[service_records.AnswerLink]:
    def parse(answer: bytes) -> service_records.AnswerLink:
        told = decoded(answer, service_records.AnswerLink)
        return msgspec.structs.replace(told, url=_from_here(told.url, url, is_public=told.public))

    lasts = expires_in.total_seconds() if isinstance(expires_in, timedelta) else expires_in
    body = {"interaction_id": interaction_id, "for": for_, "expires_in_sec": lasts}
    given = {name: value for name, value in body.items() if value is not None}
    return Call("POST", _job(run_id, "interaction", "links"), parse, body=_json(given))


def history(run_id: str) -> Call[list[records.Answered]]:
    return Call("GET", _job(run_id, "interaction", "history"), _lists("interactions", records.Answered))


# What a run leaves behind


def result(run_id: str) -> Call[Json]:
    return Call("GET", _job(run_id, "result"), lambda answer: decoded(answer, _Result).result)


def artifacts(run_id: str) -> Call[list[records.Artifact]]:
    return Call("GET", _job(run_id, "artifacts"), _lists("artifacts", records.Artifact))


def artifact(run_id: str, path: str) -> Call[bytes]:
    return Call("GET", _job(run_id, "artifacts", *path.split("/")), bytes)


def bundle(run_id: str) -> Call[bytes]:
    return Call("GET", _job(run_id, "bundle"), bytes)


def logs(run_id: str) -> Call[list[records.Log]]:
    return Call("GET", _job(run_id, "logs"), _lists("logs", records.Log))


def log(
    run_id: str, attempt: int, try_number: int, stream: str, offset: int, length: int | None
) -> Call[bytes]:
    path = _job(run_id, "logs", str(attempt), str(try_number), stream)
    return Call("GET", path, bytes, params=_params(offset=offset or None, length=length))


def attempts(run_id: str) -> Call[list[records.Attempt]]:
    return Call("GET", _job(run_id, "attempts"), _lists("attempts", records.Attempt))


# Skills, engines, the service


def skills() -> Call[list[records.Skill]]:
    return Call("GET", "/v1/skills", _lists("skills", records.Skill))


def skill(skill_id: str) -> Call[records.Skill]:
    return Call("GET", _path("skills", skill_id), _reads(records.Skill))


def schemas(skill_id: str) -> Call[records.Schemas]:
    return Call("GET", _path("skills", skill_id, "schemas"), _reads(records.Schemas))


def lint(skill_id: str) -> Call[list[records.Finding]]:
    return Call("GET", _path("skills", skill_id, "lint"), _lists("findings", records.Finding))


def install_skill(archive: IO[bytes], *, replace: bool) -> Call[records.Skill]:
    """Without `replace`, a second try would be refused because of the first."""
    return Call(
        "POST",
        "/v1/skills",
        _reads(records.Skill),
        params=(("replace", "true"),) if replace else (),
        parts=(("file", ("skill.zip", archive)),),
        is_safe=replace,
        wait=UNPACKING_SEC,
    )


def remove_skill(skill_id: str) -> Call[None]:
    return Call("DELETE", _path("skills", skill_id), _ignored, done=frozenset({"SKILL_NOT_FOUND"}))


def engines() -> Call[list[records.Engine]]:
    return Call("GET", "/v1/engines", _lists("engines", records.Engine))


def engine(name: str) -> Call[records.Engine]:
    return Call("GET", _path("engines", name), _reads(records.Engine))


def secrets() -> Call[list[service_records.Secret]]:
    return Call("GET", "/v1/secrets", _lists("secrets", service_records.Secret))


def set_secret(name: str, value: str) -> Call[service_records.Secret]:
    return Call("PUT", _path("secrets", name), _reads(service_records.Secret), body=_json({"value": value}))


def remove_secret(name: str) -> Call[None]:
    return Call("DELETE", _path("secrets", name), _ignored, done=frozenset({"SECRET_NOT_FOUND"}))


def grant_secret(name: str, skill_id: str) -> Call[service_records.Secret]:
    return Call("PUT", _path("secrets", name, "grants", skill_id), _reads(service_records.Secret))


def revoke_secret(name: str, skill_id: str) -> Call[service_records.Secret]:
    return Call("DELETE", _path("secrets", name, "grants", skill_id), _reads(service_records.Secret))


def status() -> Call[service_records.Status]:
    return Call("GET", "/v1/status", _reads(service_records.Status))


def prune(
    older_than: timedelta | float | None,
    keep_bytes: int | None,
    status: str | Sequence[str] | None,
    only: str | None,
    *,
    dry_run: bool,
) -> Call[service_records.Pruned]:
    """A second try would only tell what the first had left over."""
    body = {
        "older_than_sec": older_than.total_seconds() if isinstance(older_than, timedelta) else older_than,
        "keep_bytes": keep_bytes,
        "status": [status] if isinstance(status, str) else status and list(status),
        "only": only,
        "dry_run": dry_run,
    }
    return Call(
        "POST",
        "/v1/prune",
        _reads(service_records.Pruned),
        body=_json({name: value for name, value in body.items() if value is not None}),
        is_safe=dry_run,
        wait=PRUNING_SEC,
    )


def create_key(
    name: str,
    scopes: str | Sequence[str],
    skills: Sequence[str] | None,
    engines: Sequence[str] | None,
    expires: datetime | timedelta | float | None,
) -> Call[key_records.NewKey]:
    """A second try would be refused: whoever missed the answer makes another key, by another name."""
    body = {
        "name": name,
        "scopes": [scopes] if isinstance(scopes, str) else list(scopes),
        "skills": skills and list(skills),
        "engines": engines and list(engines),
        **_expiry(expires),
    }
    return Call(
        "POST",
        "/v1/keys",
        _reads(key_records.NewKey),
        body=_json({name: value for name, value in body.items() if value is not None}),
        is_safe=False,
    )


def _expiry(expires: datetime | timedelta | float | None) -> dict[str, Any]:
    if isinstance(expires, datetime):
        return {"expires_at": expires.astimezone().isoformat()}
    seconds = expires.total_seconds() if isinstance(expires, timedelta) else expires
    return {} if seconds is None else {"expires_in_sec": seconds}


def keys() -> Call[list[key_records.Key]]:
    return Call("GET", "/v1/keys", _lists("keys", key_records.Key))


def revoke_key(key: str) -> Call[key_records.Key]:
    return Call("DELETE", _path("keys", key), _reads(key_records.Key))


def me() -> Call[key_records.Me]:
    return Call("GET", "/v1/me", _reads(key_records.Me))


def journal(limit: int | None, cursor: str | None = None) -> Call[Page[key_records.Entry]]:
    def parse(answer: bytes) -> Page[key_records.Entry]:
        told = decoded(answer, _Journal)
        left = None if limit is None else limit - len(told.entries)
        is_more = told.next_cursor is not None and (left is None or left > 0)
        return Page(told.entries, journal(left, told.next_cursor) if is_more else None)

    size = JOURNAL_PAGE if limit is None else min(limit, JOURNAL_PAGE)
    return Call("GET", "/v1/journal", parse, params=_params(limit=size, cursor=cursor))


def sign_in(url: str) -> Call[service_records.SignIn]:
    def parse(answer: bytes) -> service_records.SignIn:
        told = decoded(answer, service_records.SignIn)
        return msgspec.structs.replace(told, url=_from_here(told.url, url, is_public=told.public))

    return Call("POST", "/v1/session/codes", parse)


def _from_here(told: str, url: str, *, is_public: bool) -> str:
    """By the name that we came by, unless the service was told its own: it cannot know how it is reached from here."""
    return told if is_public else f"{url}/#{told.partition('#')[2]}"


# Their forms


class _Created(msgspec.Struct):
    run_id: str


class _Jobs(msgspec.Struct):
    jobs: tuple[records.RunInfo, ...]
    next_cursor: str | None = None


class _Events(msgspec.Struct):
    events: tuple[records.Event, ...]
    next_from_seq: int | None = None


class _Journal(msgspec.Struct):
    entries: tuple[key_records.Entry, ...]
    next_cursor: str | None = None


class _Pending(msgspec.Struct):
    status: str
    pending: records.Question | None = None


class _Result(msgspec.Struct):
    result: Json


def _reads(kind: type[T]) -> Callable[[bytes], T]:
    return lambda answer: decoded(answer, kind)


def _lists(name: str, kind: type[T]) -> Callable[[bytes], list[T]]:
    """A list under a name; what else is there is not looked at."""

    def read(answer: bytes) -> list[T]:
        found = decoded(answer, dict[str, msgspec.Raw]).get(name, msgspec.Raw(b"null"))
        return decoded(bytes(found), list[kind])  # type: ignore[valid-type]

    return read


def _ignored(answer: bytes) -> None:
    return None


def _key() -> str:
    return uuid.uuid4().hex


def _json(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, allow_nan=False).encode()


def _params(**given: str | int | None) -> Params:
    return tuple((name, str(value)) for name, value in given.items() if value is not None)


def _job(run_id: str, *below: str) -> str:
    return _path("jobs", run_id, *below)


def _path(*segments: str) -> str:
    return "/v1/" + "/".join(_segment(each) for each in segments)


def _segment(text: str) -> str:
    quoted = quote(text, safe="")
    # Bare dots would lead up to another call before they are sent.
    return quoted.replace(".", "%2E") if quoted in (".", "..") else quoted
