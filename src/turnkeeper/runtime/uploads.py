"""Takes the files of a job that waits for them: all of them at once, on disk before the run is told."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from turnkeeper.core import lifecycle
from turnkeeper.core.errors import InputInvalid, StorageUnavailable
from turnkeeper.core.run import Run
from turnkeeper.failpoints import Deed, around
from turnkeeper.runtime.clock import Clock
from turnkeeper.runtime.disk import Disk
from turnkeeper.runtime.jobs import Jobs
from turnkeeper.runtime.stage import Stage
from turnkeeper.skills import uploads
from turnkeeper.skills.durable import sync_folder


class Uploads:
    def __init__(self, jobs: Jobs, stage: Stage, disk: Disk, clock: Clock) -> None:
        self._jobs = jobs
        self._stage = stage
        self._disk = disk
        self._clock = clock
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def require(self, run_id: str) -> Run:
        """Before anything of a body is read: a run that takes no upload says so at once, and so does a full disk."""
        run = await self._jobs.run(run_id)
        lifecycle.complete_input(run, {}, self._clock())
        await asyncio.to_thread(self._disk.require_room)
        return run

    async def take(self, run_id: str, parts: Sequence[uploads.Part], *, by: str) -> Run:
        async with self._in_turn(run_id):
            run = await self.require(run_id)
            try:
                files = await asyncio.to_thread(self._store, run, parts)
            except OSError as error:
                raise StorageUnavailable(f"the upload cannot be stored: {error.strerror}") from error
            return await self._jobs.complete_input(run_id, files, by=by)

    @asynccontextmanager
    async def _in_turn(self, run_id: str) -> AsyncIterator[None]:
        """Two uploads of one run would mix their files: the second waits, and counts if the first was refused."""
        turn = self._turns.setdefault(run_id, asyncio.Lock())  # kept alive by those who wait for it
        async with turn:
            yield

    def _store(self, run: Run, parts: Sequence[uploads.Part]) -> uploads.Found:
        """Checked beside its place, then renamed into it: what is refused leaves nothing."""
        folder = self._stage.folder(run.id)
        folder.make()
        staging = folder.root / "uploads.new"
        shutil.rmtree(staging, ignore_errors=True)
        try:
            files = uploads.receive(run.job.contract, run.job.input, parts, staging)
            if (
                self._stage.secrecy.hide_json(files) != files
            ):  # a file is found by its name: that cannot be stars
                raise InputInvalid("the name of an uploaded file holds a secret; rename the file")
            # There only if the service stopped right here the last time, before anybody was told.
            shutil.rmtree(folder.uploads, ignore_errors=True)
            with around(Deed.PLACE_UPLOAD):
                staging.rename(folder.uploads)
            # The upload may be the first that is stored of its run, and its run the first of all.
            for made in (folder.workspace, folder.root, *folder.root.parents[:2]):
                sync_folder(made)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        return files
