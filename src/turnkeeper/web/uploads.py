"""The call that brings a job's files, and how files come in a multipart body at all."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from fastapi import APIRouter, Request
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from turnkeeper.core.errors import InvalidRequest, StorageUnavailable
from turnkeeper.skills.uploads import Part
from turnkeeper.web import schemas, views
from turnkeeper.web.calls import Call, Route
from turnkeeper.web.parts import RunId, problems

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=Route)

MAX_PARTS = 200
MULTIPART = "multipart/form-data"


def multipart(description: str, properties: dict[str, Any], *, more: bool = False) -> dict[str, Any]:
    """OpenAPI's description of a body that we read ourselves, since its parts are not known beforehand."""
    form: dict[str, Any] = {"type": "object", "properties": properties}
    form["additionalProperties"] = _FILE if more else False
    if not more:
        form["required"] = list(properties)
    return {
        "requestBody": {
            "required": True,
            "description": description,
            "content": {MULTIPART: {"schema": form}},
        }
    }


_FILE = {"type": "string", "format": "binary"}
ZIP = {"file": {**_FILE, "description": "a zip"}}


@router.post(
    "/{run_id}/upload",
    response_model=schemas.RunOut,
    responses=problems(507),
    openapi_extra=multipart(
        "A zip of all files, or a part for each file input, named by it.", ZIP, more=True
    ),
)
async def upload(run_id: RunId, call: Call) -> dict[str, Any]:
    """The files of a job that waits for them (`waiting_for: upload`), all at once; then the run joins the queue."""
    await call.house.uploads.require(run_id)
    async with parts_of(call) as parts:
        run = await call.house.uploads.take(run_id, parts, by=call.by)
    return views.run_view(run, call.house.dispatcher.place(run.id))


@asynccontextmanager
async def parts_of(request: Request) -> AsyncIterator[list[Part]]:
    """Every part of the body; large ones are on disk, and gone when this is left."""
    if not request.headers.get("content-type", "").lower().startswith(MULTIPART):
        raise InvalidRequest(f"send the file as {MULTIPART}, as `curl -F file=@files.zip` does")
    form = await _form(request)
    try:
        yield [_part(name, value) for name, value in form.multi_items()]
    finally:
        await form.close()


async def _form(request: Request) -> FormData:
    async with aclosing(request.stream()) as stream:
        try:
            return await _WholeForm(request.headers, stream).parse()
        except MultiPartException as error:
            raise InvalidRequest(f"the body cannot be read: {error.message}") from None
        except OSError as error:
            raise StorageUnavailable(f"the upload cannot be stored: {error.strerror}") from error


def _part(name: str, value: UploadFile | str) -> Part:
    if isinstance(value, str):
        raise InvalidRequest(f"the part {name!r} is a text and not a file (with curl: -F '{name}=@…')")
    return Part(name, value.filename or "", value.file)


class _WholeForm(MultiPartParser):
    """Starlette takes what came before a body breaks off; files that are missing must not go unnoticed."""

    def __init__(self, headers: Headers, stream: AsyncGenerator[bytes, None]) -> None:
        super().__init__(headers, self._checked(stream), max_files=MAX_PARTS, max_fields=MAX_PARTS)
        self._is_whole = False

    def on_end(self) -> None:
        self._is_whole = True

    async def _checked(self, stream: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        async for chunk in stream:
            yield chunk
        if not self._is_whole:
            raise MultiPartException("it breaks off before its last line")
