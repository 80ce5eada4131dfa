"""A run's outcome as one zip: its result, its artifacts, and a manifest with a checksum of each file."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Protocol, cast

from turnkeeper.core.contract import ArtifactRule
from turnkeeper.core.errors import FileNotAvailable
from turnkeeper.skills import artifacts

CHUNK = 1024 * 1024
LARGE = 1 << 30
"""From here on an entry is of the zip64 kind, which not every reader takes, ours among them."""
RESULT = "result.json"
MANIFEST = "manifest.json"


class Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


class Cover(Protocol):
    """Hides secrets in one stream of bytes, and keeps its length."""

    @property
    def has_hidden(self) -> bool: ...

    def hide(self, chunk: bytes) -> bytes: ...

    def close(self) -> bytes: ...


class _Out:
    """Where the zip is written to: what is not sent yet."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        pass

    def take(self) -> bytes:
        taken, self._pieces = b"".join(self._pieces), []
        return taken


class Bundle:
    """Made piece by piece as it is sent: its size costs neither disk nor memory, and a client that hangs up ends it.

    The same run gives the same bytes each time.
    """

    def __init__(self, at: datetime, *, cover: Callable[[], Cover], hide: Callable[[str], str]) -> None:
        self._cover = cover
        self._hide = hide
        self._out = _Out()
        self._zip = zipfile.ZipFile(cast(IO[bytes], self._out), "w", zipfile.ZIP_DEFLATED)
        # The format knows no time before 1980.
        self._at = max(at.timetuple()[:6], (1980, 1, 1, 0, 0, 0))
        self._files: list[dict[str, Any]] = []

    def pieces(
        self,
        result: Mapping[str, Any] | None,
        workspace: Path,
        rules: Sequence[ArtifactRule],
        about: Mapping[str, Any],
    ) -> Generator[bytes]:
        """The manifest comes last: only then are all checksums known."""
        with self._zip:
            if result is not None:
                self._add_result(result)
            for shown, found in artifacts.named(artifacts.find(workspace, rules), self._hide):
                if found.target is None:
                    yield from self._copied(workspace, found, shown)
                else:
                    self._note_link(shown, found, found.target)
            with self._entry(MANIFEST) as entry:
                entry.write(_json({**about, "files": self._files}))
        yield self._out.take()

    def _add_result(self, result: Mapping[str, Any]) -> None:
        data = _json(result)
        with self._entry(RESULT) as entry:
            entry.write(data)
        self._note(
            RESULT, len(data), hashlib.sha256(data).hexdigest(), role="result", mime="application/json"
        )

    def _copied(self, workspace: Path, found: artifacts.Artifact, shown: str) -> Generator[bytes]:
        try:
            handle = artifacts.open_inside(workspace, found.path)
        except FileNotAvailable:
            return  # gone, or no ordinary file any more, since it was listed
        name, digest, left = f"artifacts/{shown}", hashlib.sha256(), found.size
        cover = self._cover()
        with os.fdopen(handle, "rb") as file, self._entry(name, found.size) as entry:
            # No more than was listed, however the file grows meanwhile.
            while left and (chunk := file.read(min(CHUNK, left))):
                self._add(entry, digest, cover.hide(chunk))
                left -= len(chunk)
                yield self._out.take()
            self._add(entry, digest, cover.close())
        self._note(name, found.size - left, digest.hexdigest(), role=found.role, mime=found.mime)
        if cover.has_hidden:  # whoever compares it with the agent's own file knows why
            self._files[-1]["masked"] = True

    def _add(self, entry: IO[bytes], digest: Digest, data: bytes) -> None:
        entry.write(data)
        digest.update(data)

    def _note_link(self, shown: str, found: artifacts.Artifact, target: str) -> None:
        """It is told of, and nothing is there: whoever unpacks the zip must not be led out of it."""
        self._files.append(
            {
                "path": f"artifacts/{shown}",
                "kind": "link",
                "target": artifacts.shown_target(target, self._hide),
                "size": 0,
                "sha256": None,
                "role": found.role,
                "mime": found.mime,
            }
        )

    def _entry(self, name: str, size: int = 0) -> IO[bytes]:
        info = zipfile.ZipInfo(name, self._at)
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = 0o600 << 16
        return self._zip.open(info, "w", force_zip64=size > LARGE)

    def _note(self, path: str, size: int, sha256: str, *, role: str | None, mime: str) -> None:
        self._files.append(
            {"path": path, "kind": "file", "size": size, "sha256": sha256, "role": role, "mime": mime}
        )


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=2).encode() + b"\n"
