"""How the service is reached from beyond this machine: by TLS, behind a proxy, or not at all."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.datastructures import Headers

from tests import certificates
from tests.certificates import needs_openssl
from tests.harness import TOKEN, Place, opened, settings_for
from tests.spec.scripts import INTERACTIVE
from tests.web.frozen import Frozen
from tests.web.problems import assert_problem
from tests.web.requests import TALK
from turnkeeper import beacon
from turnkeeper.client import Client as PythonClient
from turnkeeper.client import ServiceUnreachable
from turnkeeper.core.errors import Code, SettingsInvalid
from turnkeeper.web.entrance import Entrance, is_loopback
from turnkeeper.web.rates import Rates
from turnkeeper.wiring import running

PUBLIC = "https://turnkeeper.example.com"


@asynccontextmanager
async def secured(tmp_path: Path, files: certificates.Files, **more: Any) -> AsyncIterator[Place]:
    """A service with TLS, and a client that believes its certificate alone."""
    context = ssl.create_default_context(cafile=str(files.cert))
    context.check_hostname = False
    async with opened(tmp_path / "data", **files.settings, **more) as place:
        await place.client.http.aclose()
        place.client.http = httpx.AsyncClient(
            base_url=place.service.url,
            headers={"Authorization": f"Bearer {TOKEN}"},
            trust_env=False,
            timeout=30,
            verify=context,
        )
        yield place


class TestCover:
    @pytest.mark.parametrize(
        "host", ["127.0.0.1", "127.8.9.1", "::1", "localhost", "LOCALHOST", "127.2", "2130706433"]
    )
    def test_loopback_needs_none(self, host: str) -> None:
        assert is_loopback(host)
        Entrance(host=host).require_cover()

    @pytest.mark.parametrize(
        "host", ["0.0.0.0", "::", "192.168.1.2", "box.lan", "localhost.evil.example", "10.1"]
    )
    def test_anything_else_does(self, host: str) -> None:
        with pytest.raises(SettingsInvalid) as refused:
            Entrance(host=host).require_cover()
        assert all(
            way in refused.value.message for way in ("--tls-cert", "--tls-key", "--behind-proxy", host)
        )
        assert "\n" not in refused.value.message
        Entrance(host=host, behind_proxy=True).require_cover()
        Entrance(host=host, tls_cert=Path("x")).require_cover()

    async def test_nothing_is_started_without(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsInvalid, match="--behind-proxy"):
            async with running(settings_for(tmp_path / "data", host="0.0.0.0")):
                pass
        assert not (tmp_path / "data").exists()

    async def test_behind_a_proxy_it_listens_everywhere(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "data", host="0.0.0.0", behind_proxy=True) as place:
            assert (await place.client.http.get("/v1/jobs", headers={"Host": "localhost"})).status_code == 200


@needs_openssl
class TestTls:
    async def test_everything_is_https(self, tmp_path: Path) -> None:
        async with secured(tmp_path, certificates.made(tmp_path)) as place:
            assert place.service.url.startswith("https://127.0.0.1:")
            assert place.service.sign_in().startswith(place.service.url)
            seen = beacon.seen(place.settings.data_dir)
            assert seen is not None
            assert seen.url == place.service.url
            run_id = await place.client.create("answer", TALK, **INTERACTIVE)
            await place.client.settled(run_id)
            await place.client.reply(run_id, "blue")
            assert (await place.client.settled(run_id))["status"] == "succeeded"

    async def test_without_tls_nobody_is_answered(self, tmp_path: Path) -> None:
        async with (
            secured(tmp_path, certificates.made(tmp_path)) as place,
            httpx.AsyncClient(trust_env=False) as plain,
        ):
            with pytest.raises(httpx.TransportError):
                await plain.get(place.service.url.replace("https", "http") + "/healthz")

    async def test_cookie_goes_by_tls_alone_and_names_of_its_own_insist_on_it(self, tmp_path: Path) -> None:
        async with secured(tmp_path, certificates.made(tmp_path), allowed_hosts="box.lan") as place:
            named = await place.client.http.post(
                "/v1/session", json={"token": TOKEN}, headers={"Host": "box.lan"}
            )
            assert "; secure" in named.headers["set-cookie"].lower()
            assert "max-age=" in named.headers["strict-transport-security"]
            for shared in ("localhost", "127.0.0.1", "[::1]"):
                answer = await place.client.http.get("/healthz", headers={"Host": shared})
                assert "strict-transport-security" not in answer.headers, shared

    @pytest.mark.parametrize("make", [certificates.made, certificates.signed])
    async def test_commands_of_this_machine_believe_that_very_certificate(
        self, tmp_path: Path, make: Any
    ) -> None:
        files = make(tmp_path)
        async with secured(tmp_path, files) as place:
            found = await _in_thread(place, lambda client: client.status().status)
            assert found == "ready"

    async def test_commands_believe_no_other(self, tmp_path: Path) -> None:
        """Whoever listens where the service was, with a certificate of the same signer say, is not told the token."""
        files, other = certificates.signed(tmp_path), certificates.made(tmp_path, "other")
        async with secured(tmp_path, files) as place:
            kept = place.settings.data_dir / beacon.NAME
            told = json.loads(kept.read_text())
            assert told["cert"].count("BEGIN CERTIFICATE") == 1, "only its own, not that of who signed it"
            kept.write_text(json.dumps(told | {"cert": other.cert.read_text()}))
            with pytest.raises(ServiceUnreachable, match="certificate"):
                await _in_thread(place, lambda client: client.status().status)
            kept.write_text(json.dumps(told))
            assert await _in_thread(place, lambda client: client.status().status) == "ready"

    async def test_named_address_is_checked_as_any_other(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files = certificates.made(tmp_path, alias="127.0.0.1")
        async with secured(tmp_path, files) as place:

            def ask() -> str:
                with PythonClient(place.service.url, TOKEN, patience=0) as client:
                    return client.status().status

            with pytest.raises(ServiceUnreachable, match="certificate"):
                await asyncio.to_thread(ask)

    @pytest.mark.failure("V11")
    @pytest.mark.parametrize(
        "wrong",
        ["no cert", "no key", "not PEM", "swapped", "another key", "password", "folder", "unreadable"],
    )
    async def test_files_that_cannot_be_used_are_told_in_one_line(self, tmp_path: Path, wrong: str) -> None:
        good, other = certificates.made(tmp_path), certificates.made(tmp_path, "other")
        (tmp_path / "words.txt").write_text("hello\n")
        given: dict[str, Path] = {
            "no cert": good.settings | {"tls_cert": tmp_path / "nowhere.pem"},
            "no key": good.settings | {"tls_key": tmp_path / "nowhere.key"},
            "not PEM": good.settings | {"tls_cert": tmp_path / "words.txt"},
            "swapped": {"tls_cert": good.key, "tls_key": good.cert},
            "another key": good.settings | {"tls_key": other.key},
            "password": good.settings | {"tls_key": certificates.with_password(good)},
            "folder": good.settings | {"tls_cert": tmp_path},
            "unreadable": {"tls_cert": good.cert},
        }[wrong]
        with pytest.raises(SettingsInvalid) as refused:
            async with running(settings_for(tmp_path / "data", **given)):
                pass
        message = refused.value.message
        assert "\n" not in message
        assert str(tmp_path) in message
        assert not (tmp_path / "data").exists()

    @pytest.mark.failure("V11")
    def test_command_ends_with_two_and_asks_nobody(self, tmp_path: Path) -> None:
        """A key with a password must not make a service wait for somebody at a terminal."""
        files = certificates.made(tmp_path)
        locked = certificates.with_password(files)
        command = [
            sys.executable,
            "-m",
            "turnkeeper",
            "serve",
            "--port",
            "0",
            "--data-dir",
            str(tmp_path / "data"),
        ]
        done = subprocess.run(
            [*command, "--tls-cert", str(files.cert), "--tls-key", str(locked)],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=60,
            check=False,
            env=os.environ | {"TURNKEEPER_TOKEN": TOKEN},
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert "password" in done.stderr
        assert len(done.stderr.splitlines()) == 1


async def _in_thread(place: Place, work: Any) -> Any:
    def ask() -> Any:
        with PythonClient(data_dir=place.settings.data_dir, token=TOKEN, patience=0) as client:
            return work(client)

    return await asyncio.to_thread(ask)


class TestProxy:
    async def test_without_one_nobody_is_believed(self, tmp_path: Path) -> None:
        said = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.1"}
        async with opened(tmp_path / "data") as place:
            answer = await place.client.http.post("/v1/session", json={"token": TOKEN}, headers=said)
            assert "secure" not in answer.headers["set-cookie"].lower()
            assert "strict-transport-security" not in answer.headers

    @pytest.mark.parametrize(("scheme", "is_secure"), [("http", False), ("https", True), ("gopher", False)])
    async def test_proxy_tells_of_tls(self, tmp_path: Path, scheme: str, is_secure: bool) -> None:
        async with opened(tmp_path / "data", behind_proxy=True) as place:
            said = {"X-Forwarded-Proto": scheme}
            answer = await place.client.http.post("/v1/session", json={"token": TOKEN}, headers=said)
            assert ("secure" in answer.headers["set-cookie"].lower()) == is_secure

    async def test_guessing_is_slow_for_each_peer_of_the_proxy(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "data") as place:
            frozen = Frozen(place, rate=0, entrance=Entrance(host="127.0.0.1", behind_proxy=True))
            async with frozen.client("10.1.1.1") as stranger:
                for number in range(int(Rates.STRANGERS_BURST)):
                    # What stands before the last entry is of the client's own making, and gives it no other bucket.
                    said = {"X-Forwarded-For": f"10.0.0.{number}, 192.0.2.1"}
                    assert (await stranger.get("/v1/jobs", headers=said)).status_code == 401
                last = await stranger.get("/v1/jobs", headers={"X-Forwarded-For": "10.0.9.9, 192.0.2.1"})
                assert_problem(last, 429, Code.RATE_LIMITED)
                other = await stranger.get("/v1/jobs", headers={"X-Forwarded-For": "192.0.2.1, 192.0.2.2"})
                assert_problem(other, 401, Code.UNAUTHORIZED)

    def test_the_last_line_is_the_proxys_own(self) -> None:
        lines = [(b"x-forwarded-for", b"6.6.6.6"), (b"x-forwarded-for", b"203.0.113.9"), (b"host", b"x")]
        scope = {"client": ("127.0.0.1", 1), "scheme": "http"}
        seen = Entrance(host="127.0.0.1", behind_proxy=True).seen_from(scope, Headers(raw=lines))
        assert seen["client"] == ("203.0.113.9", 0)


class TestPublicUrl:
    async def test_addresses_begin_with_it_and_its_host_is_ours(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "data", behind_proxy=True, public_url=f"{PUBLIC}/") as place:
            said = {"Host": "turnkeeper.example.com"}
            made = await place.client.http.post("/v1/session/codes", headers=said)
            assert made.json()["url"].startswith(f"{PUBLIC}/#code=")
            assert made.json()["public"] is True
            assert place.service.sign_in().startswith(f"{PUBLIC}/#code=")
            found = await _in_thread(place, lambda client: client.sign_in().url)
            assert found.startswith(f"{PUBLIC}/#code=")

    async def test_without_it_a_client_is_told_the_name_it_came_by(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "data") as place:
            found = await _in_thread(place, lambda client: client.sign_in().url)
            assert found.startswith(f"{place.service.url}/#code=")

    async def test_page_of_that_origin_is_ours_also_if_the_proxy_hides_the_host(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "data", behind_proxy=True, public_url=PUBLIC) as place:
            for origin, status in (
                (PUBLIC, 200),
                (PUBLIC.replace("https", "http"), 403),
                (f"{PUBLIC}.evil.example", 403),
                (f"{PUBLIC}:444", 403),
            ):
                answer = await place.client.http.get("/v1/jobs", headers={"Origin": origin})
                assert answer.status_code == status, origin

    async def test_page_in_the_clear_is_not_the_page_with_tls(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "data", behind_proxy=True, allowed_hosts="box.lan") as place:
            said = {"Host": "box.lan", "X-Forwarded-Proto": "https"}
            good = await place.client.http.get("/v1/jobs", headers=said | {"Origin": "https://box.lan"})
            assert good.status_code == 200
            bad = await place.client.http.get("/v1/jobs", headers=said | {"Origin": "http://box.lan"})
            assert_problem(bad, 403, Code.ORIGIN_NOT_ALLOWED)

    @pytest.mark.parametrize(
        "url",
        [
            "turnkeeper.example.com",
            "ftp://x",
            "https://",
            "https://a:b@c",
            "https://x/path",
            "https://x?y",
            "//x",
        ],
    )
    def test_what_is_no_site_is_refused(self, tmp_path: Path, url: str) -> None:
        with pytest.raises(SettingsInvalid, match="PUBLIC_URL"):
            settings_for(tmp_path, public_url=url)


def test_key_without_certificate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid, match="tls_cert"):
        settings_for(tmp_path, tls_key=tmp_path / "x.key")
