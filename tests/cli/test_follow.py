"""A run that was started, and cannot be followed: its id is told all the same, so that nobody starts it twice.

And a service that has only begun to start: it is waited for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from turnkeeper.cli import embedded
from turnkeeper.cli.follow import Manner
from turnkeeper.cli.reach import Service
from turnkeeper.cli.run import follow
from turnkeeper.client import Client, Run, RunInfo, ServiceNotFound, ServiceUnreachable
from turnkeeper.lock import LOCK, DirectoryLock

RUN = "01a1ebb8524b7b12031827520d6f7bba"


class Unheard(Run):
    """One of a service that does not answer; who asks it fares as told."""

    def __init__(self, fate: BaseException) -> None:
        super().__init__(RUN, cast(Any, None), None)
        self._fate = fate

    def info(self, wait: float | None = None) -> RunInfo:
        raise self._fate


def followed(fate: BaseException) -> int:
    return follow(Service(cast(Client, None), None), Unheard(fate), Manner(has_person=False), as_json=False)


def test_the_service_is_lost_at_once() -> None:
    with pytest.raises(
        ServiceUnreachable, match=f"broke\\nRun {RUN} may go on; .*turnkeeper watch {RUN[:12]}"
    ):
        followed(ServiceUnreachable("the connection broke"))


def test_ctrl_c_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert followed(KeyboardInterrupt()) == 130
    assert f"turnkeeper watch {RUN[:12]}" in capsys.readouterr().err


def test_a_service_that_has_not_said_yet_who_it_is(tmp_path: Path) -> None:
    """Between taking the directory and writing that down; it is not on another machine."""
    lock = DirectoryLock(tmp_path)
    try:
        (tmp_path / LOCK).write_bytes(b"")
        assert not embedded.is_ready(tmp_path)
        with pytest.raises(ServiceNotFound, match="is starting or stopping"):
            Client(data_dir=tmp_path)
    finally:
        lock.release()
