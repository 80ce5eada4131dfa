"""One owner for a data directory, and how others learn who it is without getting in its way."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

import pytest

from turnkeeper.core.errors import DataDirInUse
from turnkeeper.lock import PAUSE_SEC, DirectoryLock, Owner, owner_of


@contextmanager
def held(data_dir: Path) -> Iterator[None]:
    lock = DirectoryLock(data_dir)
    try:
        yield
    finally:
        lock.release()


def test_the_owner_is_known_while_it_serves(tmp_path: Path) -> None:
    with held(tmp_path):
        owner = owner_of(tmp_path)
        assert owner is not None
        assert (owner.pid, owner.host) == (os.getpid(), socket.gethostname())
        with pytest.raises(DataDirInUse, match=f"is in use by the server with pid {os.getpid()} on "):
            DirectoryLock(tmp_path)
    assert owner_of(tmp_path) is None


def test_who_looks_leaves_nothing(tmp_path: Path) -> None:
    assert owner_of(tmp_path) is None
    assert owner_of(tmp_path / "nowhere") is None
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_server_left_is_no_owner(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text('{"pid": 1, "host": "here", "since": "2026-01-02T03:04:05+00:00"}')
    assert owner_of(tmp_path) is None


@pytest.mark.parametrize("words", ["", "{}", "[]", "nonsense"])
def test_an_owner_that_could_not_say_who_it_is(tmp_path: Path, words: str) -> None:
    with held(tmp_path):
        (tmp_path / "lock").write_text(words)
        assert owner_of(tmp_path) == Owner()
    assert str(Owner()) == "another server"


def test_who_looks_does_not_keep_a_server_from_starting(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        done = Timer(PAUSE_SEC, fcntl.flock, (looking, fcntl.LOCK_UN))
        done.start()
        with held(tmp_path):
            pass
        done.join()
