"""Names for the moments at which a crash would be felt most: right before a deed, and right after it.

Nothing happens there, and no setting changes that: a test program that runs the service in its own process may watch
them, and end that process at any of them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from itertools import product


class Deed(StrEnum):
    """Whatever the world is different after: a write, a name, a process, a right to something."""

    # the store
    LOCK = "lock the data directory"
    MIGRATE = "migrate"
    KEEP_TOKEN = "keep the token"
    KEEP_SECRETS = "keep the secrets"
    COMMIT = "commit"
    DELIVER = "deliver what was committed"
    PUBLISH = "publish"
    # a run with a slot
    TAKE_SLOT = "take a slot"
    RELEASE_SLOT = "release a slot"
    CLAIM = "claim"
    FINISH = "finish a turn"
    PAUSE = "pause a turn"
    LET_GO = "let go of a process"
    MEET_DEADLINE = "apply a deadline"
    # its process
    MAKE_LOGS = "make the raw logs"
    SPAWN = "spawn"
    SPEAK = "say the first words"
    SYNC_LOGS = "sync the raw logs"
    # files that become real by a rename
    PLACE_SKILL = "place the run's skill"
    WRITE_HOME = "write into the run's home"
    PLACE_UPLOAD = "place an upload"
    LIGHT_BEACON = "light the beacon"
    SET_SKILL_ASIDE = "set an old skill aside"
    PUT_SKILL = "put a skill in place"
    BRING_SKILL_BACK = "bring an old skill back"
    REMOVE_SKILL = "remove a skill"
    # the operator's login
    NOTE_LOAN = "note a loan"
    LEND = "lend a login"
    RENEW_LOGIN = "give a renewed login back"
    FORGET_LOAN = "forget a loan"
    # after a crash
    END_LEFTOVERS = "end leftovers"
    TAKE_LOGIN_BACK = "take a login back"
    RECOVER_RUN = "recover a run"
    KEEP_WAITING = "let the waiting wait on"


class When(StrEnum):
    BEFORE = "before"
    AFTER = "after"


Point = tuple[When, Deed]
Watcher = Callable[[Point], None]

POINTS: tuple[Point, ...] = tuple((when, deed) for deed, when in product(Deed, When))

_UNWATCHED = nullcontext()
_watcher: Watcher | None = None


def watch(watcher: Watcher) -> None:
    """For the rest of the process's life. It is called on whichever thread does the deed."""
    global _watcher
    _watcher = watcher


def around(deed: Deed) -> AbstractContextManager[None]:
    return _UNWATCHED if _watcher is None else _Watched(_watcher, deed)


class _Watched:
    def __init__(self, watcher: Watcher, deed: Deed) -> None:
        self._watcher = watcher
        self._deed = deed

    def __enter__(self) -> None:
        self._watcher((When.BEFORE, self._deed))

    def __exit__(self, error: object, *_: object) -> None:
        if error is None:  # else it was not done
            self._watcher((When.AFTER, self._deed))
