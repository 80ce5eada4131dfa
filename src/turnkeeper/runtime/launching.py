"""How a turn comes to its process: a machine that is short of something is asked again before that is a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from turnkeeper.core.errors import Code
from turnkeeper.engines.lending import LoginBusy
from turnkeeper.engines.spawn import SpawnFailed
from turnkeeper.runtime.session import Session
from turnkeeper.runtime.stage import StageFailed, staging

T = TypeVar("T")

PAUSES_SEC = (0.1, 0.5, 2.0)
LOGIN_TRIES, LOGIN_PAUSE_SEC = 120, 0.5


async def prepared(call: Callable[[], Awaitable[T]]) -> T:
    """What a turn needs before its process. Somebody may be trying the engine by hand, with the same login: that is
    over soon."""
    for _ in range(LOGIN_TRIES):
        try:
            return await retried(call)
        except StageFailed as failed:
            if not isinstance(failed.__cause__, LoginBusy):
                raise
        await asyncio.sleep(LOGIN_PAUSE_SEC)
    return await retried(call)


async def start(session: Session, mark: str, logs: Sequence[Path]) -> None:
    """Of what was prepared: if it cannot be started, it is cleared away again."""
    try:
        await retried(partial(_start, session, mark, logs))
    except BaseException:
        await asyncio.to_thread(session.move_out)
        raise


async def _start(session: Session, mark: str, logs: Sequence[Path]) -> None:
    try:
        session.start(mark, *logs)
    except SpawnFailed as failed:
        code = Code.STORAGE_UNAVAILABLE if failed.subject == "output" else Code.ENGINE_NOT_READY
        raise StageFailed(code, str(failed), is_passing=failed.is_passing) from failed


async def retried(call: Callable[[], Awaitable[T]]) -> T:
    for pause in PAUSES_SEC:
        try:
            return await call()
        except StageFailed as failed:
            if not failed.is_passing:
                raise
        await asyncio.sleep(pause)
    return await call()


async def redirect(session: Session, logs: Sequence[Path], keep: Callable[[], None]) -> None:
    with staging():
        await asyncio.to_thread(keep)
    try:
        session.process.redirect(*logs)
    except OSError as error:
        raise StageFailed(Code.STORAGE_UNAVAILABLE, f"the raw log cannot be written: {error}") from error
