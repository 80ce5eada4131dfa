"""Where the service is, and by which token it is spoken to.

Given, else `TURNKEEPER_URL`, else the service that holds the data directory of the settings, else one that holds a
`.turnkeeper` in this folder or above it. A service that was found by its data directory is looked for again before
every call: it may have come back on another port, and a token is only for who holds the directory now.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Protocol
from urllib.parse import SplitResult, urlsplit

from turnkeeper import beacon
from turnkeeper.client.errors import ClientError, ServiceNotFound
from turnkeeper.core.errors import TurnkeeperError
from turnkeeper.lock import LOCK

FOLDER = ".turnkeeper"
"""Where `make run`, and whoever keeps a service beside a project, has its data."""
URL, TOKEN = "TURNKEEPER_URL", "TURNKEEPER_TOKEN"
GIVE_TOKEN = f"give the token that it was started with (token=…, or {TOKEN})"


@dataclass(frozen=True, slots=True)
class Address:
    url: str
    token: str = field(repr=False)
    host: str | None = None
    """What to call it, if not by the address: it may listen on one that it does not answer for."""
    cert: str | None = None
    """Its certificate, where that is known from the service itself; else it is checked as any other."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "token", self.token.strip())
        # Whoever sends such a header is told so with the header, and the token would stand in a traceback.
        if not self.token.isprintable():
            raise ClientError(f"the token has a line break or another control character in it; {GIVE_TOKEN}")

    @property
    def headers(self) -> dict[bytes, bytes]:
        """In bytes: a token of strange characters is for the service to refuse."""
        named = {b"Host": self.host.encode()} if self.host else {}
        return {b"Authorization": f"Bearer {self.token}".encode("utf-8", "replace"), **named}


class Place(Protocol):
    """Somewhere that a service is, or was."""

    @property
    def is_here(self) -> bool:
        """On this machine: no proxy of the environment has any business in between."""
        ...

    def look(self) -> Address:
        """Where it is now; raises ServiceNotFound."""
        ...


@dataclass(frozen=True, slots=True)
class Given:
    """An address that somebody named."""

    address: Address

    @property
    def is_here(self) -> bool:
        return is_loopback(urlsplit(self.address.url).hostname or "")

    def look(self) -> Address:
        return self.address

    def __str__(self) -> str:
        return self.address.url


@dataclass(frozen=True, slots=True)
class Kept:
    """The service of a data directory, whoever that is at the moment."""

    data_dir: Path
    token: str | None = field(default=None, repr=False)
    """None: the one that the service itself made and keeps there."""
    is_ours_only: bool = False
    """The directory was come across, and not named: one of somebody else's is none."""

    @property
    def is_here(self) -> bool:
        return True

    def look(self) -> Address:
        # Of a stranger's folder nothing is read at all: it might be anything.
        is_strange = self.is_ours_only and not _is_ours(self.data_dir)
        sighting = beacon.Sighting(None, None) if is_strange else beacon.sight(self.data_dir)
        if sighting.owner is None:
            raise ServiceNotFound(
                f"no service runs on {self.data_dir}; start it: "
                f"turnkeeper serve --data-dir {shlex.quote(str(self.data_dir))}"
            )
        if sighting.is_elsewhere:
            raise ServiceNotFound(
                f"{sighting.owner} has {self.data_dir}; give its address (url=…, or {URL}) and its token"
            )
        if sighting.beacon is None:
            raise ServiceNotFound(
                f"{sighting.owner} has {self.data_dir} and is starting or stopping; try again in a moment"
            )
        token = self.token or beacon.kept_token(self.data_dir)
        if token is None:
            raise ServiceNotFound(f"the token of {sighting.beacon.url} is not known here; {GIVE_TOKEN}")
        return Address(sighting.beacon.url, token, host="localhost", cert=sighting.beacon.cert)

    def __str__(self) -> str:
        return f"the service of {self.data_dir}"


def find(
    url: str | None = None, token: str | None = None, data_dir: str | os.PathLike[str] | None = None
) -> Place:
    """By the rules above; raises ServiceNotFound with what to do about it."""
    if url is None and data_dir is None:
        url = os.environ.get(URL) or None
    if url is not None:
        return _named(_origin(url), token or os.environ.get(TOKEN) or None)
    kept = _configured(token, data_dir)
    places = [kept] if data_dir is not None else [kept, *_nearby(kept.token)]
    for place in places:
        if place.is_ours_only and _runs(place):
            return place
        if not place.is_ours_only and beacon.sight(place.data_dir).owner is not None:
            place.look()
            return place
    above = "" if data_dir is not None else f", nor on a {FOLDER} in this folder or above it"
    raise ServiceNotFound(
        f"no service runs on {kept.data_dir}{above}; start one (turnkeeper serve), "
        f"or say where it is (url=…, or {URL})"
    )


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost" or host.lower().endswith(".localhost")


def _named(url: str, token: str | None) -> Place:
    if token is not None:
        return Given(Address(url, token))
    # A token of the settings is that of the service which they are for, and not of just any address.
    for place in (_configured(None, None), *_nearby(None)):
        if _runs(place) and place.look().url == url:
            return place
    raise ServiceNotFound(f"the token of {url} is not known here; {GIVE_TOKEN}")


def _configured(token: str | None, data_dir: str | os.PathLike[str] | None) -> Kept:
    # Settings take longer to import than all else here together, and most clients are told an address.
    from turnkeeper.settings import load_settings

    try:
        settings = load_settings(data_dir=data_dir)
    except TurnkeeperError as error:
        raise ServiceNotFound(f"the settings do not say where the service is: {error.message}") from error
    return Kept(settings.data_dir, token or settings.token)


def _nearby(token: str | None) -> Iterator[Kept]:
    for folder in folders_around():
        yield Kept(folder, token, is_ours_only=True)


def folders_around() -> list[Path]:
    """Where a data directory would be, in this folder and those above it."""
    try:
        here = Path.cwd()
    except FileNotFoundError:
        return []  # somebody deleted the folder that we are in
    return [folder / FOLDER for folder in (here, *here.parents)]


def _runs(place: Kept) -> bool:
    try:
        place.look()
    except ServiceNotFound:
        return False
    return True


def _is_ours(data_dir: Path) -> bool:
    """A stranger's folder above ours could hold a service of theirs, that waits for tokens."""
    try:
        return all(
            path.lstat().st_uid == os.geteuid()
            for path in (data_dir, data_dir / LOCK, data_dir / beacon.NAME)
        )
    except OSError:
        return False


def _origin(url: str) -> str:
    """Without what may stand behind it: the address of the page is as good as that of the service."""
    try:
        parts = urlsplit(url.strip())
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, is_address = SplitResult("", "", "", "", ""), False
    # What was given is not repeated: it may have a password in it.
    if not is_address:
        raise ServiceNotFound("the address given is none of a service; they are like http://127.0.0.1:9813")
    if "@" in parts.netloc:
        raise ServiceNotFound(f"the address has a name or a password in it; {GIVE_TOKEN} instead")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
