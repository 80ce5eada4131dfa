"""What a run leaves behind: its result, its artifacts, its raw logs."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, cast
from urllib.parse import quote

from fastapi import APIRouter, Query
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.responses import Response, StreamingResponse

from turnkeeper.core.errors import FileNotAvailable, ResultNotAvailable, RunNotEnded
from turnkeeper.core.fcmp import instant
from turnkeeper.core.run import Attempt
from turnkeeper.engines.veil import Veil
from turnkeeper.skills import artifacts
from turnkeeper.skills.bundle import Bundle
from turnkeeper.skills.workspace import RunFolder
from turnkeeper.web import schemas, views
from turnkeeper.web.calls import Call, Route
from turnkeeper.web.parts import RunId, problems

router = APIRouter(prefix="/v1/jobs", tags=["files"], route_class=Route, responses=problems(503))

CHUNK = 256 * 1024
STREAMS: tuple[Literal["stdout", "stderr"], ...] = ("stdout", "stderr")
_BYTES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
}
_LOG: dict[int | str, dict[str, Any]] = {
    200: _BYTES[200] | {"headers": {"X-Log-Size": {"required": True, "schema": {"type": "integer"}}}},
}
ZIP = "application/zip"
_ODD = re.compile(r"[^A-Za-z0-9._-]")
_ZIP: dict[int | str, dict[str, Any]] = {
    200: {"content": {ZIP: {"schema": {"type": "string", "format": "binary"}}}}
}


class FilePath(PathConvertor):
    """Starlette's `path` stops at a line break, which is a character like others in the name of a file."""

    regex = "(?s:.*)"


register_url_convertor("file", FilePath())


@router.get("/{run_id}/result", response_model=schemas.ResultOut, responses=problems(409))
async def get_result(run_id: RunId, call: Call) -> dict[str, Any]:
    """The output that passed the skill's schema; 409 while, or if, there is none."""
    run = await call.house.jobs.run(run_id)
    if run.result is None:
        why = f" ({run.error.code.value}: {run.error.message})" if run.error else ""
        raise ResultNotAvailable(
            f"the run is {run.state.value} and has no result{why}", state=run.state.value
        )
    warnings = [views.warning_view(warning) for warning in run.warnings]
    return {"request_id": run.id, "status": run.state.value, "result": run.result, "warnings": warnings}


@router.get("/{run_id}/artifacts", response_model=schemas.Artifacts)
async def list_artifacts(run_id: RunId, call: Call) -> dict[str, Any]:
    """Files in the workspace that the skill declares, or all of them if it declares none."""
    run = await call.house.jobs.run(run_id)
    workspace = call.house.stage.folder(run.id).workspace
    found = await asyncio.to_thread(artifacts.find, workspace, run.job.contract.artifacts)
    await call.house.jobs.run(run_id)  # one that was removed meanwhile is not one without files
    listed = await asyncio.to_thread(_listed, found, call.house.secrecy.hide_text)
    return {"request_id": run.id, "artifacts": listed}


@router.get("/{run_id}/artifacts/{path:file}", response_class=Response, responses=_BYTES)
async def get_artifact(run_id: RunId, path: str, call: Call) -> Response:
    """One file of the workspace, with stars where it has a secret; links are never followed."""
    run = await call.house.jobs.run(run_id)
    workspace, rules = call.house.stage.folder(run.id).workspace, run.job.contract.artifacts
    hide = call.house.secrecy.hide_text
    file = await asyncio.to_thread(lambda: _opened(artifacts.open_shown(workspace, path, rules, hide)))
    size = os.fstat(file.fileno()).st_size
    name = await asyncio.to_thread(hide, path)
    headers = {"Content-Disposition": _as_download(name), "Content-Length": str(size)}
    sent = _send(file, 0, size, call.house.secrecy.veil())
    return StreamingResponse(sent, media_type="application/octet-stream", headers=headers)


@router.get("/{run_id}/bundle", response_class=Response, responses=_ZIP | problems(409))
async def get_bundle(run_id: RunId, call: Call) -> Response:
    """Result, artifacts and a manifest with checksums, as one zip; once the run has ended."""
    run = await call.house.jobs.run(run_id)
    if not run.state.is_terminal:
        raise RunNotEnded(
            f"the run is {run.state.value}; its bundle is there when it has ended", state=run.state.value
        )
    bundle = Bundle(
        run.finished_at or run.updated_at, cover=call.house.secrecy.veil, hide=call.house.secrecy.hide_text
    )
    pieces = bundle.pieces(
        run.result,
        call.house.stage.folder(run.id).workspace,
        run.job.contract.artifacts,
        views.manifest_view(run),
    )
    headers = {"Content-Disposition": f'attachment; filename="{run.id}.zip"'}
    return StreamingResponse(_made(pieces), media_type=ZIP, headers=headers)


@router.get("/{run_id}/logs", response_model=schemas.Logs)
async def list_logs(run_id: RunId, call: Call) -> dict[str, Any]:
    """The raw logs that exist, one for each attempt, try and stream."""
    attempts = await call.house.store.attempts(run_id)
    logs = await asyncio.to_thread(lambda: list(_logs(call.house.stage.folder(run_id), attempts)))
    # Read after the logs: a run that was removed meanwhile is not one without logs.
    run = await call.house.jobs.run(run_id)
    return {"request_id": run.id, "logs": logs}


@router.get("/{run_id}/logs/{attempt}/{try_number}/{stream}", response_class=Response, responses=_LOG)
async def get_log(
    run_id: RunId,
    attempt: int,
    try_number: int,
    stream: Literal["stdout", "stderr"],
    call: Call,
    offset: Annotated[int, Query(ge=0, le=schemas.LARGEST)] = 0,
    length: Annotated[int | None, Query(ge=1, le=schemas.LARGEST)] = None,
) -> Response:
    """The bytes as the engine wrote them; `raw_ref` of an event gives offset and length."""
    run = await call.house.jobs.run(run_id)
    name = call.house.stage.folder(run.id).raw(attempt, try_number, stream).name
    file = await asyncio.to_thread(_open, call.house.stage.folder(run.id).root / "raw", name)
    size = os.fstat(file.fileno()).st_size
    if offset > size:
        file.close()
        raise FileNotAvailable(f"the log has {size} bytes", size=size)
    wanted = min(size - offset, length or size)
    headers = {"Content-Length": str(wanted), "X-Log-Size": str(size), "Content-Disposition": "attachment"}
    return StreamingResponse(
        _send(file, offset, wanted), media_type="application/octet-stream", headers=headers
    )


async def _made(pieces: Generator[bytes]) -> AsyncIterator[bytes]:
    """Each piece on a thread, and no thread kept while the client takes its time."""
    taking = threading.Lock()

    def take() -> bytes | None:
        with taking:
            return next(pieces, None)

    def close() -> None:
        with taking:  # a thread may still be at it when the client has gone
            pieces.close()

    try:
        while (piece := await asyncio.to_thread(take)) is not None:
            if piece:
                yield piece
    finally:
        asyncio.get_running_loop().run_in_executor(None, close)


def _open(root: Path, path: str) -> BinaryIO:
    """A file object and not a bare descriptor: if the client is gone before the first byte, it closes itself."""
    return _opened(artifacts.open_inside(root, path))


def _opened(handle: int) -> BinaryIO:
    return cast(BinaryIO, os.fdopen(handle, "rb", buffering=0))


def _as_download(path: str) -> str:
    """Never to be shown in place of the page, and under a name that no system takes for something else."""
    name = path.rsplit("/", 1)[-1]
    plain = _ODD.sub("_", name).lstrip(".")[:100] or "file"
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='', errors='replace')}"


def _listed(found: list[artifacts.Artifact], hide: Callable[[str], str]) -> list[dict[str, Any]]:
    return [_artifact(shown, each, hide) for shown, each in artifacts.named(found, hide)]


def _artifact(shown: str, found: artifacts.Artifact, hide: Callable[[str], str]) -> dict[str, Any]:
    told = {"path": shown, "kind": "file", "size": found.size, "mime": found.mime, "role": found.role}
    if found.target is None:
        return told
    return told | {"kind": "link", "target": artifacts.shown_target(found.target, hide)}


async def _send(file: BinaryIO, offset: int, length: int, veil: Veil | None = None) -> AsyncIterator[bytes]:
    """Exactly `length` bytes, however the file grows meanwhile; one that shrank is cut short."""

    def read(size: int, at: int) -> tuple[int, bytes]:
        chunk = os.pread(file.fileno(), size, at)
        return len(chunk), veil.hide(chunk) if veil else chunk

    try:
        while length > 0:
            size, shown = await asyncio.to_thread(read, min(CHUNK, length), offset)
            if not size:
                break
            offset, length = offset + size, length - size
            if shown:
                yield shown
        if veil and (rest := veil.close()):
            yield rest
    finally:
        file.close()


def _logs(folder: RunFolder, attempts: list[Attempt]) -> Iterator[dict[str, Any]]:
    for attempt in attempts:
        for stream in STREAMS:
            try:
                size = folder.raw(attempt.attempt_number, attempt.try_number, stream).stat().st_size
            except FileNotFoundError:
                continue  # not written yet, or removed
            yield {
                "attempt": attempt.attempt_number,
                "try": attempt.try_number,
                "stream": stream,
                "size": size,
                "started_at": instant(attempt.started_at),
                "ended_at": attempt.ended_at and instant(attempt.ended_at),
                "pid": attempt.born and attempt.born.pid,
                "verdict": attempt.verdict,
            }
