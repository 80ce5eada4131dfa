"""Where a client looks for the service, and whom it tells the token."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.client.services import Service, serving
from turnkeeper.client import ApiError, AsyncClient, Client, ClientError, ServiceNotFound, ServiceUnreachable
from turnkeeper.client.discovery import Address, find, is_loopback
from turnkeeper.lock import DirectoryLock

Env = pytest.MonkeyPatch


class Eavesdropper:
    """Somebody else on the port: it keeps what it is told, and says nothing."""

    def __init__(self, port: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", port))
        self.heard = b""
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with client:
                    self.heard += b"somebody came: " + client.recv(65536)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)


@contextmanager
def listening(port: int = 0) -> Iterator[Eavesdropper]:
    ear = Eavesdropper(port)
    try:
        yield ear
    finally:
        ear.close()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service whose data is `.turnkeeper` in a project."""
    folder = tmp_path_factory.mktemp("project")
    with serving(folder / ".turnkeeper") as service:
        yield service


def reached(client: Client) -> str:
    with client:
        client.status()
        return client.url


class TestWhere:
    def test_given(self, service: Service, monkeypatch: Env) -> None:
        monkeypatch.setenv("TURNKEEPER_URL", "http://127.0.0.1:1")
        assert reached(Client(f"{service.url}/#/runs/1", service.token)) == service.url

    def test_by_the_environment(self, service: Service, project: Service, monkeypatch: Env) -> None:
        monkeypatch.setenv("TURNKEEPER_URL", service.url)
        monkeypatch.setenv("TURNKEEPER_TOKEN", service.token)
        monkeypatch.setenv("TURNKEEPER_DATA_DIR", str(project.data_dir))
        assert reached(Client()) == service.url

    def test_a_folder_that_is_given_is_stronger_than_the_environment(
        self, service: Service, monkeypatch: Env
    ) -> None:
        monkeypatch.setenv("TURNKEEPER_URL", "http://127.0.0.1:1")
        assert reached(Client(data_dir=str(service.data_dir))) == service.url

    def test_the_data_directory_of_the_settings(
        self, service: Service, project: Service, monkeypatch: Env
    ) -> None:
        monkeypatch.setenv("TURNKEEPER_DATA_DIR", str(service.data_dir))
        monkeypatch.chdir(project.data_dir.parent)
        assert reached(Client()) == service.url

    def test_a_project_around_us(self, project: Service, monkeypatch: Env) -> None:
        inside = project.data_dir.parent / "a" / "b"
        inside.mkdir(parents=True, exist_ok=True)
        (inside / ".turnkeeper").mkdir(exist_ok=True)  # of a service that does not run
        monkeypatch.chdir(inside)
        assert reached(Client()) == project.url

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
    def test_not_one_of_somebody_else(self, tmp_path: Path, monkeypatch: Env) -> None:
        with serving(tmp_path / ".turnkeeper") as service:
            inside = tmp_path / "inside"
            inside.mkdir()
            monkeypatch.chdir(inside)
            assert reached(Client()) == service.url
            for path in (service.data_dir, service.data_dir / "lock", service.data_dir / "service.json"):
                os.chown(path, 12345, 12345)
                with pytest.raises(ServiceNotFound):
                    Client()
                os.chown(path, 0, 0)

    def test_a_lock_that_is_none_keeps_nobody(self, tmp_path: Path, monkeypatch: Env) -> None:
        """A stranger may put anything above us; who opens a pipe waits for its other end."""
        folder = tmp_path / ".turnkeeper"
        folder.mkdir()
        os.mkfifo(folder / "lock")
        monkeypatch.chdir(tmp_path)
        for data_dir in (None, folder):
            with pytest.raises(ServiceNotFound, match="no service runs on"):
                Client(data_dir=data_dir)

    def test_whoever_holds_a_lock_may_have_written_anything(self, tmp_path: Path) -> None:
        lock = DirectoryLock(tmp_path)
        (tmp_path / "lock").write_text("[" * 4000)
        with pytest.raises(ServiceNotFound, match="another server has"):
            Client(data_dir=tmp_path)
        lock.release()

    def test_nowhere(self, tmp_path: Path) -> None:
        with pytest.raises(ServiceNotFound, match=r"nor on a \.turnkeeper .* start one \(turnkeeper serve\)"):
            Client()
        with pytest.raises(ServiceNotFound, match=f"^no service runs on {tmp_path}/x; start"):
            AsyncClient(data_dir=tmp_path / "x")

    def test_in_a_folder_that_is_gone(self, tmp_path: Path, monkeypatch: Env) -> None:
        (tmp_path / "gone").mkdir()
        monkeypatch.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()
        with pytest.raises(ServiceNotFound):
            find()

    def test_a_wrong_setting_is_said(self, monkeypatch: Env) -> None:
        monkeypatch.setenv("TURNKEEPER_SLOTS", "many")
        with pytest.raises(ServiceNotFound, match="TURNKEEPER_SLOTS"):
            Client()

    @pytest.mark.parametrize(
        "url", ["http://[::1]x", "http://a..b", f"http://{'a' * 64}.b", "http://host/\1"]
    )
    def test_an_address_that_nobody_can_be_asked_by(self, url: str) -> None:
        with Client(url, "token") as client, pytest.raises(ServiceNotFound, match="no address"):
            client.status()

    @pytest.mark.parametrize(
        "url", ["127.0.0.1:9813", "ftp://host", "http://", "http://host:port", "http://[::1"]
    )
    def test_no_address(self, url: str) -> None:
        with pytest.raises(ServiceNotFound, match=r"like http://127\.0\.0\.1:9813"):
            Client(url, "token")

    def test_an_address_with_a_password(self) -> None:
        with pytest.raises(ServiceNotFound, match="password") as refused:
            Client("http://me:secret@host", "token")
        assert "secret" not in str(refused.value)

    def test_nobody_answers_there(self) -> None:
        with (
            Client("http://127.0.0.1:1", "token") as client,
            pytest.raises(ServiceUnreachable, match=":1 does"),
        ):
            client.status()

    def test_something_else_answers_there(self, service: Service) -> None:
        with Client(f"{service.url}/elsewhere", service.token) as client:
            with pytest.raises(ApiError) as refused:
                client.status()
            assert refused.value.code == "NOT_FOUND"


class TestToken:
    def test_an_address_of_ours_without_a_token(self, project: Service, monkeypatch: Env) -> None:
        monkeypatch.setenv("TURNKEEPER_URL", project.url)
        monkeypatch.chdir(project.data_dir.parent)
        assert reached(Client()) == project.url

    def test_an_address_of_others_without_a_token(self, project: Service, monkeypatch: Env) -> None:
        monkeypatch.chdir(project.data_dir.parent)
        with pytest.raises(ServiceNotFound, match=r"the token of .*:1 is not known here"):
            Client("http://127.0.0.1:1")

    def test_a_wrong_one(self, service: Service) -> None:
        with (
            Client(service.url, "wrong") as client,
            pytest.raises(ApiError, match="TURNKEEPER_TOKEN") as refused,
        ):
            client.status()
        assert (refused.value.code, refused.value.status) == ("UNAUTHORIZED", 401)

    def test_one_that_the_operator_gave(self, tmp_path: Path, monkeypatch: Env) -> None:
        given = "an-operators-own-token"
        with serving(tmp_path / "data", TURNKEEPER_TOKEN=given) as service:
            with pytest.raises(ServiceNotFound, match="is not known here"):
                Client(data_dir=service.data_dir)
            monkeypatch.setenv("TURNKEEPER_TOKEN", given)
            assert reached(Client(data_dir=service.data_dir)) == service.url

    def test_a_killed_service_is_told_nothing(self, tmp_path: Path) -> None:
        with serving(tmp_path / "data") as service, Client(data_dir=service.data_dir) as client:
            client.status()
            service.kill()
            with listening(service.port) as ear:
                assert (service.data_dir / "service.json").exists(), "its beacon is still there"
                with pytest.raises(ServiceNotFound):
                    Client(data_dir=service.data_dir)
                with pytest.raises(ServiceNotFound):
                    Client(service.url)
                with pytest.raises(ServiceUnreachable, match="no service runs on"):
                    client.status()
                assert ear.heard == b""

    def test_a_proxy_of_the_environment_is_told_nothing(self, service: Service, monkeypatch: Env) -> None:
        with listening() as ear:
            for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
                monkeypatch.setenv(name, f"http://127.0.0.1:{ear._listener.getsockname()[1]}")
            assert reached(Client(service.url, service.token)) == service.url
            assert reached(Client(data_dir=service.data_dir)) == service.url
            assert ear.heard == b""

    @pytest.mark.parametrize("token", ["two\nlines", "a\0b", "bell\a"])
    def test_one_that_cannot_be_sent(self, service: Service, token: str) -> None:
        with pytest.raises(ClientError, match="control character") as refused:
            Client(service.url, token)
        assert token not in str(refused.value)

    @pytest.mark.parametrize("token", ["  spaces around  \n", "Schlüssel", "日本"])
    def test_strange_ones_are_for_the_service_to_refuse(self, service: Service, token: str) -> None:
        with Client(service.url, token) as client, pytest.raises(ApiError) as refused:
            client.status()
        assert refused.value.code == "UNAUTHORIZED"

    def test_it_is_never_shown(self, service: Service) -> None:
        token = "a-token-that-nobody-should-read"
        said = [
            repr(Address("http://host", token)),
            repr(find(service.url, token)),
            str(find(service.url, token)),
        ]
        for url in (service.url, "http://127.0.0.1:1"):
            with Client(url, token) as client:
                run = client.job("x")
                said += [repr(client), repr(run), repr(client._place)]
                with pytest.raises(ClientError) as failed:
                    run.info()
                said += traceback.format_exception(failed.value)
                said += [repr(failed.value), repr(vars(failed.value))]
        assert token not in "\n".join(said)
        assert repr(AsyncClient(service.url, token)) == f"<AsyncClient of {service.url}>"


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("LOCALHOST", True),
        ("a.localhost", True),
        ("10.0.0.1", False),
        ("x", False),
    ],
)
def test_loopback(host: str, is_ours: bool) -> None:
    assert is_loopback(host) is is_ours


def test_importing_it_is_cheap() -> None:
    code = (
        "import sys; from turnkeeper.client import Client; "
        "print({name.split('.')[0] for name in sys.modules} & {'fastapi', 'pydantic', 'rich', 'httpx', 'asyncio'})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
