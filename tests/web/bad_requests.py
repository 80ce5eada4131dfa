"""Requests that are wrong in one way each, and the code that says so. `{asking}` in a path is a run that waits for
a reply, `{ended}` one that has ended after one question, `{held}` one that waits for its upload."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.harness import Json
from tests.skills.archives import Member, build, zipped
from tests.web.requests import JOB
from turnkeeper.core.errors import Code

REPLY = "/v1/jobs/{asking}/interaction/reply"
UPLOAD = "/v1/jobs/{held}/upload"
FILE = "/v1/jobs/{ended}/artifacts/"
IS_JSON = {"Content-Type": "application/json"}
IS_FORM = {"Content-Type": "multipart/form-data; boundary=B"}


@dataclass(frozen=True)
class Bad:
    what: str
    code: Code
    path: str
    method: str = "POST"
    content: bytes = b""
    headers: Mapping[str, str | bytes] = field(default_factory=dict)
    files: Any = None


def said(what: str, code: Code, path: str, body: Any, **headers: str) -> Bad:
    """As JSON, whatever it says."""
    return Bad(what, code, path, content=json.dumps(body).encode(), headers=IS_JSON | headers)


def asked(what: str, code: Code, path: str, method: str = "GET", **headers: str | bytes) -> Bad:
    return Bad(what, code, path, method, headers=headers)


def sent(what: str, code: Code, path: str, **files: Any) -> Bad:
    return Bad(what, code, path, files=files)


def jobs() -> Iterator[Bad]:
    """One thing of a job is not there, not known or not allowed."""

    def job(what: str, code: Code, **more: Any) -> Bad:
        return said(f"job: {what}", code, "/v1/jobs", JOB | more)

    yield job("unknown skill", Code.SKILL_NOT_FOUND, skill_id="nobody")
    yield job("skill that is a path", Code.SKILL_NOT_FOUND, skill_id="../answer")
    yield job("skill with a NUL", Code.SKILL_NOT_FOUND, skill_id="answer\0")
    yield job("unknown engine", Code.ENGINE_NOT_FOUND, engine="nobody")
    yield job("engine with a NUL", Code.ENGINE_NOT_FOUND, engine="demo\0")
    yield job("engine that the skill excludes", Code.SKILL_ENGINE_UNSUPPORTED, skill_id="no-demo")
    yield job("unknown mode", Code.INVALID_REQUEST, execution_mode="manual")
    yield job("mode that the skill excludes", Code.SKILL_EXECUTION_MODE_UNSUPPORTED, skill_id="talk-only")
    yield job("unknown model", Code.ENGINE_MODEL_UNKNOWN, model="gpt-17")
    for model in ("-m", "--yolo", "", " ", "demo\n", "demo\0", "$(id)", "x" * 201):
        yield job(f"model {model[:8]!r}", Code.INVALID_REQUEST, model=model)
    yield job("unknown field", Code.UNKNOWN_FIELD, skil_id="answer")
    yield job("unknown option", Code.UNKNOWN_FIELD, runtime_options={"execution_mod": "auto"})
    yield job("unknown timeout", Code.UNKNOWN_FIELD, timeouts={"idle": 5})
    yield job("unknown nested timeout", Code.UNKNOWN_FIELD, runtime_options={"timeouts": {"idle": 5}})
    yield job("unknown member of a profile", Code.UNKNOWN_FIELD, interactive_profile={"kind": "auto", "a": 1})
    yield job("field of 100,000 characters", Code.UNKNOWN_FIELD, **{"x" * 100_000: 1})
    yield job("1000 unknown fields", Code.UNKNOWN_FIELD, **{f"k{n}": n for n in range(1000)})
    many = {f"k{n}": n for n in range(1000)}
    yield job("1000 unknown options", Code.UNKNOWN_FIELD, runtime_options={"timeouts": many})
    yield job("profile of 1000 members", Code.UNKNOWN_FIELD, interactive_profile=many)
    twice: Json = {"execution_mode": "auto", "runtime_options": {"execution_mode": "interactive"}}
    yield job("option given twice", Code.OPTION_CONFLICT, **twice)
    yield job("input that does not fit", Code.INPUT_INVALID, skill_id="typed", input={"pages": 0})
    yield job("unknown demo script", Code.INVALID_REQUEST, parameter={"demo_script": "nobody"})
    yield job("demo script that is none", Code.INVALID_REQUEST, parameter={"demo_script": {"turns": "x"}})
    yield job("file in place of its name", Code.INPUT_INVALID, skill_id="filed", input={"document": {}})
    fit = {"skill_id": "typed", "input": {"title": "x"}}
    yield job("parameter that does not fit", Code.INPUT_INVALID, parameter={"depth": "x"}, **fit)


def texts() -> Iterator[Bad]:
    """What is not JSON, or JSON that readers do not agree about: as a job and as a reply."""
    told = {
        "/v1/jobs": '{"engine": "demo", "skill_id": "answer", "input": %s}',
        REPLY: '{"interaction_id": 1, "response": %s}',
    }
    for path, text in told.items():
        whole = (text % '{"a": "b"}').encode()
        wrong: dict[str, bytes] = {
            "empty": b"",
            "blank": b" \r\n",
            "truncated": whole[:-1],
            "trailing words": whole + b" yes",
            "two values": whole + whole,
            "single quotes": whole.replace(b'"', b"'"),
            "comment": b"/* */" + whole,
            "trailing comma": whole[:-1] + b",}",
            "not UTF-8": (text % '"ü"').encode("latin-1"),
            "UTF-16": whole.decode().encode("utf-16"),
            "UTF-32": whole.decode().encode("utf-32"),
            "byte order mark": b"\xef\xbb\xbf" + whole,
            "raw NUL": (text % '{"a": "\0"}').encode(),
            "raw control character": (text % '{"a": "\x1b"}').encode(),
            "half a surrogate pair": (text % r'{"a": "\ud800"}').encode(),
            "half a surrogate pair as a name": whole[:-1] + rb', "\ud800": 1}',
            "name given twice": whole[:-1] + b", " + whole[1:],
            "name given twice inside": (text % '{"a": 1, "a": 1}').encode(),
            "NaN": (text % '{"a": NaN}').encode(),
            "infinite": (text % '{"a": [-Infinity]}').encode(),
            "infinite by its exponent": (text % '{"a": 1e999}').encode(),
            "number of 5000 digits": (text % f'{{"a": {"9" * 5000}}}').encode(),
            "100,000 brackets": (text % ("[" * 100_000 + "]" * 100_000)).encode(),
            "100,000 braces": (text % ('{"a":' * 100_000 + "1" + "}" * 100_000)).encode(),
            "brackets that stay open": b"[" * 100_000,
        }
        for value in ("null", "true", "5", '"text"', "[]", "{}"):
            wrong[f"only {value}"] = value.encode()
        for what, content in wrong.items():
            yield Bad(f"{path}: {what}", Code.INVALID_REQUEST, path, content=content, headers=IS_JSON)
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "json", ""):
            headers = {"Content-Type": kind} if kind else {}
            what = f"{path}: as {kind or 'nothing'}"
            yield Bad(what, Code.INVALID_REQUEST, path, content=whole, headers=headers)


def replies() -> Iterator[Bad]:
    ids: tuple[Any, ...] = (0, -1, 2**53, 2**70, 1.5, "1", "one", True, None, [1], {})
    for wrong in ids:
        body = {"interaction_id": wrong, "response": "x"}
        yield said(f"reply to {wrong!r}", Code.INVALID_REQUEST, REPLY, body)
    yield said("reply to nothing", Code.INVALID_REQUEST, REPLY, {"response": "x"})
    yield said("reply without words", Code.INVALID_REQUEST, REPLY, {"interaction_id": 1})
    yield said("reply of null", Code.INVALID_REQUEST, REPLY, {"interaction_id": 1, "response": None})
    one: Json = {"interaction_id": 1, "response": "x"}
    yield said("reply with more", Code.UNKNOWN_FIELD, REPLY, one | {"final": True})
    yield said("reply with an empty key", Code.INVALID_REQUEST, REPLY, one | {"idempotency_key": ""})
    yield said("reply with a long key", Code.INVALID_REQUEST, REPLY, one | {"idempotency_key": "x" * 201})
    yield said("reply to a question to come", Code.INTERACTION_STALE, REPLY, one | {"interaction_id": 2})
    for state, code in {"ended": Code.INTERACTION_ANSWERED, "held": Code.RUN_NOT_WAITING}.items():
        yield said(f"reply to a run that is {state}", code, f"/v1/jobs/{{{state}}}/interaction/reply", one)
    late = one | {"interaction_id": 2}
    yield said("reply after the end", Code.RUN_NOT_WAITING, "/v1/jobs/{ended}/interaction/reply", late)
    yield said("reply to nobody", Code.RUN_NOT_FOUND, "/v1/jobs/nobody/interaction/reply", one)


def uploads() -> Iterator[Bad]:
    good = zipped({"document.txt": b"words"})
    link = build(Member("document.txt", b"/etc/passwd", mode=0o120777))
    for path in (UPLOAD, "/v1/skills"):
        yield sent(f"{path}: not a zip", Code.ARCHIVE_REFUSED, path, file=("a.zip", b"PK\3\4 not really"))
        yield sent(f"{path}: empty", Code.ARCHIVE_REFUSED, path, file=("a.zip", b""))
        yield sent(f"{path}: link", Code.ARCHIVE_REFUSED, path, file=("a.zip", link))
        out = zipped({"../evil": b"", "SKILL.md": b""})
        yield sent(f"{path}: entry that leads out", Code.ARCHIVE_REFUSED, path, file=("a.zip", out))
        yield sent(f"{path}: part of another name", Code.INVALID_REQUEST, path, zip=("a.zip", good))
        yield Bad(f"{path}: not a form", Code.INVALID_REQUEST, path, content=good)
        yield said(f"{path}: JSON", Code.INVALID_REQUEST, path, {"file": "words"})
        yield Bad(f"{path}: no part", Code.INVALID_REQUEST, path, content=b"--B--\r\n", headers=IS_FORM)
        yield Bad(f"{path}: nonsense", Code.INVALID_REQUEST, path, content=b"nonsense", headers=IS_FORM)
        head = b'--B\r\nContent-Disposition: form-data; name="file"%s\r\n\r\n'
        text = head % b"" + b"x\r\n--B--\r\n"
        yield Bad(f"{path}: text", Code.INVALID_REQUEST, path, content=text, headers=IS_FORM)
        many = (head % b'; filename="x"' + b"x\r\n") * 201 + b"--B--\r\n"
        yield Bad(f"{path}: 201 files", Code.INVALID_REQUEST, path, content=many, headers=IS_FORM)
        unnamed = b'--B\r\nContent-Disposition: form-data; filename="x"\r\n\r\nx\r\n--B--\r\n'
        yield Bad(f"{path}: no name", Code.INVALID_REQUEST, path, content=unnamed, headers=IS_FORM)
    yield sent("upload without the file", Code.INPUT_INVALID, UPLOAD, file=("a.zip", zipped({"x": b""})))
    for name in (b"..", b"a\0b.txt", b"a\x1b.txt", b"x" * 300):
        part = (
            b'--B\r\nContent-Disposition: form-data; name="document"; filename="%s"\r\n\r\nx\r\n--B--\r\n'
            % name
        )
        what = f"upload called {name[:8]!r}"
        yield Bad(what, Code.ARCHIVE_REFUSED, UPLOAD, content=part, headers=IS_FORM)
    for run, code in {
        "{asking}": Code.UPLOAD_NOT_EXPECTED,
        "{ended}": Code.UPLOAD_NOT_EXPECTED,
        "nobody": Code.RUN_NOT_FOUND,
    }.items():
        yield sent(f"upload to {run}", code, f"/v1/jobs/{run}/upload", file=("a.zip", good))
    yield sent("skill without SKILL.md", Code.SKILL_BROKEN, "/v1/skills", file=("a.zip", good))
    yield asked("removal of nobody", Code.SKILL_NOT_FOUND, "/v1/skills/nobody", "DELETE")
    yield asked("removal of the operator's", Code.SKILL_NOT_MANAGED, "/v1/skills/answer", "DELETE")


def reads() -> Iterator[Bad]:
    """Cursors, ranges, filters and names that lead nowhere."""
    for cursor in ("999", "-1", "1.0", "x", "%00", "0x1", "+1", "%201", "9" * 5000):
        path = f"/v1/jobs/{{ended}}/events?cursor={cursor}"
        yield asked(f"stream from {cursor[:9]}", Code.CURSOR_INVALID, path)
        if "%" not in cursor:
            header = {"Last-Event-ID": cursor}
            yield asked(f"stream after {cursor[:9]}", Code.CURSOR_INVALID, path.split("?")[0], **header)
            yield asked(f"list from {cursor[:9]}", Code.CURSOR_INVALID, f"/v1/jobs?cursor={cursor}")
    for wrong in ("0", "-1", "1.5", "x", "", "%00", str(2**53), "9" * 5000):
        for name in ("from_seq", "to_seq", "limit"):
            path = f"/v1/jobs/{{ended}}/events/history?{name}={wrong}"
            yield asked(f"history with {name}={wrong[:9]}", Code.INVALID_REQUEST, path)
    for query in ("limit=0", "limit=201", "limit=x", "limit=", "limit=1&limit=x", "status=done", "status="):
        yield asked(f"list with {query}", Code.INVALID_REQUEST, f"/v1/jobs?{query}")
    yield asked("list of an unknown mode", Code.INVALID_REQUEST, "/v1/jobs?execution_mode=manual")
    log = "/v1/jobs/{ended}/logs"
    for query in ("offset=-1", "offset=x", f"offset={2**53}", "length=0", "length=-1", "length="):
        yield asked(f"log with {query}", Code.INVALID_REQUEST, f"{log}/1/1/stdout?{query}")
    for name in ("9/1/stdout", "0/0/stderr", "-1/1/stdout", f"{10**300}/1/stdout"):
        yield asked(f"log {name[:12]}", Code.FILE_NOT_FOUND, f"{log}/{name}")
    for name in ("1/1/stdin", "one/1/stdout", "1/1/%00"):
        yield asked(f"log {name}", Code.INVALID_REQUEST, f"{log}/{name}")
    for path in ("", "..", "../token", "%2e%2e/token", "..%2f..%2ftoken", "%2e%2e%2f%2e%2e%2ftoken", "a%00",
                 "/etc/passwd", "%2fetc%2fpasswd", "..%5c..%5ctoken", "%252e%252e%252ftoken", "%c0%ae%c0%ae/token",
                 "nothing.txt", "x" * 300):  # fmt: skip
        yield asked(f"artifact {path[:24]}", Code.FILE_NOT_FOUND, FILE + path)
    yield asked("bundle of a run under way", Code.RUN_NOT_ENDED, "/v1/jobs/{asking}/bundle")
    yield asked("result of a run under way", Code.RESULT_NOT_AVAILABLE, "/v1/jobs/{asking}/result")
    yield asked("unknown engine", Code.ENGINE_NOT_FOUND, "/v1/engines/nobody")
    yield asked("unknown run", Code.RUN_NOT_FOUND, "/v1/jobs/%ff%00")
    yield asked("cancel of nobody", Code.RUN_NOT_FOUND, "/v1/jobs/nobody/cancel", "POST")


def doors() -> Iterator[Bad]:
    """Paths, methods and headers."""
    for path in ("/nowhere", "/v1", "/v1/", "//v1/jobs", "/v1/jobs/", "/v1/skills/", "/v1/jobs/%2e%2e/skills",
                 "/v1/jobs/../skills", "/V1/jobs", "/v1/jobs;a=b", "/healthz/"):  # fmt: skip
        yield asked(f"path {path}", Code.NOT_FOUND, path)
    for method, path in (("DELETE", "/v1/jobs"), ("PATCH", "/v1/skills/answer"), ("OPTIONS", "/v1/jobs"),
                         ("PUT", "/healthz"), ("BREW", "/v1/jobs"), ("GET", "/v1/jobs/nobody/cancel")):  # fmt: skip
        yield asked(f"{method} {path}", Code.METHOD_NOT_ALLOWED, path, method)
    for wait in ("wait", "wait=", "wait=soon", "wait=-1", "wait=1.5", "wait=1234567"):
        yield asked(f"Prefer: {wait}", Code.INVALID_REQUEST, "/v1/jobs/{asking}", Prefer=wait)
    for key in ("", "x" * 201):
        header = {"Idempotency-Key": key}
        yield said(f"Idempotency-Key of {len(key)}", Code.INVALID_REQUEST, "/v1/jobs", JOB, **header)
    yield asked("another token", Code.UNAUTHORIZED, "/v1/jobs", Authorization="Bearer of-bad-news-everyone")
    yield asked("token of no text", Code.UNAUTHORIZED, "/v1/jobs", Authorization=b"Bearer \xff\xfe")
    yield asked("another host", Code.HOST_NOT_ALLOWED, "/v1/jobs", Host="evil.example")
    yield asked("another site", Code.ORIGIN_NOT_ALLOWED, "/v1/jobs", Origin="https://evil.example")


EVERY = [*jobs(), *texts(), *replies(), *uploads(), *reads(), *doors()]
