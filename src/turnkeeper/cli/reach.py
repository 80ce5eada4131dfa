"""How a command comes to a service, and to a run of it: one rule for all of them.

With TURNKEEPER_URL it is that one, and nothing is ever started. Else it is the one that runs on this machine, and if
there is none it is started. Ids of runs may be cut short.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import hexdigits
from typing import TYPE_CHECKING

import typer

from turnkeeper.cli.given import option_for
from turnkeeper.cli.terminal import FAILED, INTERRUPTED, USAGE, complain, printable
from turnkeeper.core.errors import InvalidRequest, RunNotFound, TurnkeeperError

if TYPE_CHECKING:
    from turnkeeper.client import ApiError, Client, Run

URL = "TURNKEEPER_URL"
LAST = "last"
SCOPE_MISSING = "SCOPE_MISSING"
TRIES = 3
SHORT, WHOLE = 4, 32
"""Signs of a run's id: the fewest that may be given, and all of them."""
SHOWN = 12
"""Of an id, wherever a person reads it: they are the time to the millisecond."""
TO_BLAME = frozenset({400, 401, 403, 404, 413})
"""Refusals that another command line would not have met."""
ADVICE = {
    "SKILL_NOT_FOUND": "see which there are: turnkeeper skills list; `turnkeeper run` also takes the path of a folder",
    "ENGINE_NOT_READY": "to try it without an account: --engine demo",
    "UNAUTHORIZED": "set TURNKEEPER_TOKEN to the token of that service, or to a key",
    "KEY_EXPIRED": "set TURNKEEPER_TOKEN to another key, or leave it out to use the token of this machine",
    "KEY_REVOKED": "set TURNKEEPER_TOKEN to another key, or leave it out to use the token of this machine",
    "SCOPE_MISSING": "whoever looks after the service can make a key with that scope: turnkeeper keys create",
    "QUEUE_FULL": "nothing was started; try again later",
    "SKILL_EXECUTION_MODE_UNSUPPORTED": "leave out --auto or --interactive",
    "SKILL_VERSION_NOT_HIGHER": "raise its version, or install it with --replace",
}


@dataclass(frozen=True, slots=True)
class Service:
    client: Client
    data_dir: Path | None
    """None: it is elsewhere, or somebody named its address."""
    is_ours: bool = False
    """This command has started it."""

    @property
    def is_gone(self) -> bool:
        """It is one of this machine, and does not run any more."""
        from turnkeeper.cli import embedded

        return self.data_dir is not None and embedded.is_gone(self.data_dir)

    def ensure(self) -> None:
        """It runs, again if need be."""
        from turnkeeper.cli import embedded

        if self.data_dir is not None:
            embedded.ensure(self.data_dir)


@contextmanager
def service(data_dir: Path | None) -> Iterator[Service]:
    """Found, or started; every refusal inside is told in one form, and is the end of the command."""
    from turnkeeper.client import Client

    with refusing():
        if data_dir is None and os.environ.get(URL):
            found = Service(Client(), None)
        else:
            found = _awake(folder_of(data_dir))
            if found.is_ours and data_dir is None:
                _tell_of_others(found.data_dir)
        with found.client:
            yield found


def _awake(folder: Path) -> Service:
    """One that answers and will go on answering.

    One that has nothing to do may be stopping right now. Whoever has asked is somebody to stay for.
    """
    from turnkeeper.cli import embedded
    from turnkeeper.client import Client, ClientError, ServiceUnreachable

    for _ in range(TRIES):
        is_ours = embedded.ensure(folder)
        try:
            client = Client(data_dir=folder)
            if not _is_stopping(client):
                return Service(client, folder, is_ours)
        except ClientError:
            if embedded.is_ready(folder):
                raise
        embedded.let_go(folder)
    raise ServiceUnreachable(f"the service on {folder} is stopping, and does not come to an end")


def _is_stopping(client: Client) -> bool:
    from turnkeeper.client import ApiError

    try:
        return client.status().status == "stopping"
    except ApiError as refusal:
        if refusal.code != SCOPE_MISSING:
            raise
        return False  # it has answered; a key that may not look is told no more


def _tell_of_others(used: Path | None) -> None:
    """Whoever has stopped the service of this folder may well be looking for its runs."""
    from turnkeeper.client.discovery import folders_around

    for asleep in folders_around():
        # Nobody is sent to a stranger's folder, where a token would be told to the stranger.
        if asleep != used and asleep.is_dir() and asleep.lstat().st_uid == os.geteuid():
            words = f"The service of {asleep} does not run, so this is another one, with runs and skills of its own."
            typer.echo(printable(f"{words} That one: --data-dir {asleep}"), err=True)
            return


def folder_of(data_dir: Path | None) -> Path:
    """Of the service that runs already, else the one of the settings."""
    from turnkeeper.client import ClientError, discovery
    from turnkeeper.settings import load_settings

    settings = load_settings(data_dir=data_dir)
    try:
        place = discovery.find(data_dir=data_dir)
    except ClientError:
        return settings.data_dir  # who asks there is told what is wrong
    return place.data_dir if isinstance(place, discovery.Kept) else settings.data_dir


@contextmanager
def refusing() -> Iterator[None]:
    from turnkeeper.cli.embedded import NotStarted
    from turnkeeper.client import ApiError, ClientError, ServiceNotFound

    try:
        yield
    except ApiError as error:
        _complain(error)
        raise typer.Exit(USAGE if error.status in TO_BLAME else FAILED) from None
    except TurnkeeperError as error:
        complain(error.message)
        raise typer.Exit(USAGE) from None
    except (ClientError, NotStarted) as error:
        complain(str(error))
        # Without a name of its own it is about what was given: a file that is not there, no folder of a skill.
        raise typer.Exit(USAGE if type(error) in (ClientError, ServiceNotFound) else FAILED) from None
    except UnicodeEncodeError as error:
        complain(f"{error.object!r} is not UTF-8, which all names are written in")
        raise typer.Exit(USAGE) from None
    except KeyboardInterrupt:
        complain("interrupted")
        raise typer.Exit(INTERRUPTED) from None


def _complain(error: ApiError) -> None:
    about = error.message.partition(": ")[0] if error.errors else error.message
    complain("the service does not take this" if about.startswith("/") else about, error.code)
    for each in error.errors:
        option = option_for(each)
        typer.echo(printable(f"  {each}" + (f"  ({option})" if option else "")), err=True)
    fix = error.facts.get("fix")
    for line in filter(None, (fix and f"fix: {fix}", ADVICE.get(error.code))):
        typer.echo(printable(f"  {line}"), err=True)


# Runs


def run_of(client: Client, given: str) -> Run:
    """By its id, the first signs of it, or `last`."""
    return client.job(given.lower() if _is_id(given, WHOLE) else _whole_id(client, given))


def _is_id(given: str, signs: int) -> bool:
    return len(given) == signs and set(given) <= set(hexdigits)


def _whole_id(client: Client, given: str) -> str:
    if given == LAST:
        newest = next(iter(client.jobs(limit=1)), None)
        if newest is None:
            raise RunNotFound("there is no run yet; start one: turnkeeper run SKILL")
        return newest.run_id
    if len(given) < SHORT:
        raise InvalidRequest(f"{given!r} is too short for the id of a run: give at least {SHORT} signs of it")
    if not _is_id(given, min(len(given), WHOLE)):
        return only([], given)
    found = [run.run_id for run in client.jobs(q=given) if run.run_id.startswith(given.lower())]
    return only(found, given)


def only(found: list[str], given: str) -> str:
    if not found:
        raise RunNotFound(f"there is no run {given!r}; see which there are: turnkeeper list --all")
    if len(found) > 1:
        raise InvalidRequest(f"{given!r} is the beginning of {len(found)} runs: {', '.join(found[:5])}")
    return found[0]
