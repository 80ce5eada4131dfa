"""Takes the files of a job that waits for them: all of them at once, on disk before the run is told."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from turnkeeper.core import lifecycle
from turnkeeper.core.errors import StorageUnavailable, UploadNotExpected
from turnkeeper.core.run import Run
from turnkeeper.runtime.clock import Clock
from turnkeeper.runtime.jobs import Jobs
from turnkeeper.runtime.stage import Stage
from turnkeeper.skills import uploads
from turnkeeper.skills.durable import sync_folder


class Uploads:
    def __init__(self, jobs: Jobs, stage: Stage, clock: Clock) -> None:
        self._jobs = jobs
        self._stage = stage
        self._clock = clock
        self._busy: set[str] = set()

    async def require(self, run_id: str) -> Run:
        """Before anything of a body is read: a run that takes no upload says so at once."""
        run = await self._jobs.run(run_id)
        lifecycle.complete_input(run, {}, self._clock())
        return run

    async def take(self, run_id: str, parts: Sequence[uploads.Part]) -> Run:
        with self._alone(run_id):
            run = await self.require(run_id)
            try:
                files = await asyncio.to_thread(self._store, run, parts)
            except OSError as error:
                raise StorageUnavailable(f"the upload cannot be stored: {error.strerror}") from error
            return await self._jobs.complete_input(run_id, files)

    @contextmanager
    def _alone(self, run_id: str) -> Iterator[None]:
        """Two uploads of one run would mix their files."""
        if run_id in self._busy:
            raise UploadNotExpected("another upload of this run is being taken at this moment")
        self._busy.add(run_id)
        try:
            yield
        finally:
            self._busy.discard(run_id)

    def _store(self, run: Run, parts: Sequence[uploads.Part]) -> uploads.Found:
        """Checked beside its place, then renamed into it: what is refused leaves nothing."""
        folder = self._stage.folder(run.id)
        folder.make()
        staging = folder.root / "uploads.new"
        shutil.rmtree(staging, ignore_errors=True)
        try:
            files = uploads.receive(run.job.contract, run.job.input, parts, staging)
            # There only if the service stopped right here the last time, before anybody was told.
            shutil.rmtree(folder.uploads, ignore_errors=True)
            staging.rename(folder.uploads)
            sync_folder(folder.workspace)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        return files
