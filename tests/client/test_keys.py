"""Keys by the Python client, and a client that comes with one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from tests.client.services import Service
from turnkeeper.client import ApiError, AsyncClient, Client


def test_a_key_is_made_used_and_revoked(service: Service, client: Client) -> None:
    new = client.create_key("client-one", ["read", "answer"], skills=["interview"], expires=timedelta(days=1))
    assert new.key.startswith(f"tk_{new.id}_")
    assert new.key not in repr(new)
    assert (new.skills, new.engines, new.is_active) == (("interview",), None, True)
    assert new.expires_at is not None
    assert timedelta(hours=23) < new.expires_at - datetime.now(UTC) <= timedelta(days=1)
    with Client(service.url, new.key) as other:
        me = other.me()
        assert (me.by, me.scopes, me.skills) == ("key:client-one", ("read", "answer"), ("interview",))
        assert [skill.id for skill in other.skills()] == ["interview"]
        for refused, code in (
            (lambda: other.run("interview"), "SCOPE_MISSING"),
            (other.keys, "SCOPE_MISSING"),
        ):
            with pytest.raises(ApiError) as told:
                refused()
            assert (told.value.code, told.value.status) == (code, 403)
        assert client.revoke_key("client-one").status == "revoked"
        with pytest.raises(ApiError) as told:
            other.me()
        assert told.value.code == "KEY_REVOKED"
    keys = client.keys()
    found = {key.name: key for key in keys}
    assert not found["client-one"].is_active
    assert found["token"].scopes == ("admin",)
    revoked, created = islice((each for each in client.journal() if each.subject == "client-one"), 2)
    assert (revoked.what, created.what, created.by) == ("key.revoked", "key.created", "token")


async def test_the_same_to_await(aclient: AsyncClient) -> None:
    ends = datetime(2200, 1, 1, tzinfo=UTC)
    new = await aclient.create_key("client-two", "run", engines=["demo"], expires=ends)
    assert (new.scopes, new.engines, new.expires_at) == (("run",), ("demo",), ends)
    assert "client-two" in [key.name for key in await aclient.keys()]
    assert (await aclient.revoke_key(new.id)).revoked_by == "token"
    assert (await aclient.me()).scopes == ("admin",)
    entries = [each async for each in aclient.journal(limit=1)]
    assert (entries[0].what, entries[0].subject) == ("key.revoked", "client-two")
