"""A key that was answered is a key, whatever happens next; and one that was revoked stays so."""

from __future__ import annotations

from tests.crash.restarts import Daemon
from tests.harness import Client


async def status(daemon: Daemon, key: str) -> int:
    client = Client(daemon.client.url, key)
    try:
        return (await client.http.get("/v1/jobs")).status_code
    finally:
        await client.http.aclose()


async def test_what_was_answered_outlives_a_kill(daemon: Daemon) -> None:
    body = {"name": "ci", "scopes": ["read"]}
    key = (await daemon.client.http.post("/v1/keys", json=body)).json()["key"]
    await daemon.power_cut()
    daemon.start()
    assert await status(daemon, key) == 200
    assert (await daemon.client.http.post("/v1/keys", json=body)).json()["code"] == "KEY_NAME_TAKEN"
    (entry,) = (await daemon.client.http.get("/v1/journal")).json()["entries"]
    assert (entry["what"], entry["subject"]) == ("key.created", "ci")

    assert (await daemon.client.http.delete("/v1/keys/ci")).status_code == 200
    await daemon.power_cut()
    daemon.start()
    assert await status(daemon, key) == 401
    told = (await daemon.client.http.get("/v1/journal")).json()["entries"]
    assert [each["what"] for each in told] == ["key.revoked", "key.created"]
