"""What the Tab key offers beyond options: skills, engines and runs, as the running service knows them.

It never starts a service, waits a second at the most, and says nothing when there is nobody to ask: a person in the
middle of a line wants names, not complaints. So it asks by the standard library, which is loaded sooner than our
client, and once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import typer

if TYPE_CHECKING:
    from turnkeeper.client.discovery import Address

PATIENCE_SEC = 1.0
MOST_RUNS = 50
"""The newest: nobody picks from more."""
LONGEST = 60

Offer = tuple[str, str]
"""A word, and what a shell may show beside it."""

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""Shells evaluate what they are offered, and a skill that only lies in a folder can have any name."""


def skill_ids(context: typer.Context, incomplete: str) -> list[Offer]:
    """The broken ones too: they are shown and removed as well."""
    told = _ask(context, "/v1/skills")
    return _fitting(((each["id"], each["description"]) for each in told.get("skills", ())), incomplete)


def secret_names(context: typer.Context, incomplete: str) -> list[Offer]:
    told = _ask(context, "/v1/secrets")
    return _fitting(((each["name"], "") for each in told.get("secrets", ())), incomplete)


def engine_names(context: typer.Context, incomplete: str) -> list[Offer]:
    """Without a service, those that every installation has."""
    told = _ask(context, "/v1/engines").get("engines")
    return _fitting(
        ((name, "") for name in ([each["name"] for each in told] if told else _built_in())), incomplete
    )


def run_ids(context: typer.Context, incomplete: str) -> list[Offer]:
    """The newest first."""
    told = _ask(context, "/v1/jobs", limit=MOST_RUNS, **({"q": incomplete} if incomplete else {}))
    found = told.get("jobs", ())
    return _fitting(((each["run_id"], f"{each['skill_id']}, {each['status']}") for each in found), incomplete)


def _built_in() -> tuple[str, ...]:
    from turnkeeper import engines

    return engines.names()


def _fitting(offers: Iterable[Offer], incomplete: str) -> list[Offer]:
    return [
        (word, _plain(words))
        for word, words in offers
        if word.startswith(incomplete) and _WORD.fullmatch(word)
    ]


def _plain(words: str) -> str:
    """One short line, without any sign that a shell would act on."""
    return re.sub(r"[^\w ,.()-]+", " ", words).strip()[:LONGEST]


def _ask(context: typer.Context, path: str, **params: Any) -> dict[str, Any]:
    """Empty if there is no answer in time. Looking up an address cannot be hurried, so it is left behind instead."""
    found: dict[str, Any] = {}

    def ask() -> None:
        try:
            found.update(_told(_address(context), f"{path}?{urlencode(params)}"))
        except Exception:  # noqa: BLE001 (whatever it was: a traceback in the middle of a line helps nobody)
            found.clear()

    asking = Thread(target=ask, daemon=True)
    asking.start()
    asking.join(PATIENCE_SEC)
    return {} if asking.is_alive() else found


def _address(context: typer.Context) -> Address:
    from turnkeeper.client import discovery

    return discovery.find(data_dir=context.params.get("data_dir")).look()


def _told(address: Address, path: str) -> dict[str, Any]:
    from http.client import HTTPConnection, HTTPSConnection

    parts = urlsplit(address.url)
    connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = connect(parts.hostname or "", parts.port, timeout=PATIENCE_SEC)
    try:
        headers = {name.decode(): value for name, value in address.headers.items()}
        connection.request("GET", f"{parts.path}{path}", headers=headers)
        told = json.load(connection.getresponse())
    finally:
        connection.close()
    return told if isinstance(told, dict) else {}
