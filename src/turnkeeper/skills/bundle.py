"""A run's outcome as one zip: its result, its artifacts, and a manifest with a checksum of each file."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from turnkeeper.core.contract import ArtifactRule
from turnkeeper.core.errors import FileNotAvailable
from turnkeeper.skills import artifacts

CHUNK = 1024 * 1024
RESULT = "result.json"
MANIFEST = "manifest.json"


class Bundle:
    """Written to any file; the same run gives the same bytes each time."""

    def __init__(self, out: IO[bytes], at: datetime) -> None:
        self._zip = zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED)
        # The format knows no time before 1980.
        self._at = max(at.timetuple()[:6], (1980, 1, 1, 0, 0, 0))
        self._files: list[dict[str, Any]] = []

    def add_result(self, result: Mapping[str, Any]) -> None:
        data = json.dumps(result, ensure_ascii=False, indent=2).encode() + b"\n"
        with self._entry(RESULT) as entry:
            entry.write(data)
        self._note(
            RESULT, len(data), hashlib.sha256(data).hexdigest(), role="result", mime="application/json"
        )

    def add_artifacts(self, workspace: Path, rules: Sequence[ArtifactRule]) -> None:
        for found in artifacts.find(workspace, rules):
            try:
                handle = artifacts.open_inside(workspace, found.path)
            except FileNotAvailable:
                continue  # gone, or no ordinary file any more, since it was listed
            with os.fdopen(handle, "rb") as file:
                self._copy(file, found)

    def close(self, about: Mapping[str, Any]) -> None:
        """The manifest comes last: only then are all checksums known."""
        manifest = {**about, "files": self._files}
        with self._entry(MANIFEST) as entry:
            entry.write(json.dumps(manifest, ensure_ascii=False, indent=2).encode() + b"\n")
        self._zip.close()

    def _copy(self, file: IO[bytes], found: artifacts.Artifact) -> None:
        name, digest, left = f"artifacts/{found.path}", hashlib.sha256(), found.size
        with self._entry(name) as entry:
            # No more than was listed: a file that grows without end must not fill the disk twice.
            while left and (chunk := file.read(min(CHUNK, left))):
                entry.write(chunk)
                digest.update(chunk)
                left -= len(chunk)
        self._note(name, found.size - left, digest.hexdigest(), role=found.role, mime=found.mime)

    def _entry(self, name: str) -> IO[bytes]:
        info = zipfile.ZipInfo(name, self._at)
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = 0o600 << 16
        return self._zip.open(info, "w", force_zip64=True)

    def _note(self, path: str, size: int, sha256: str, *, role: str | None, mime: str) -> None:
        self._files.append({"path": path, "size": size, "sha256": sha256, "role": role, "mime": mime})
