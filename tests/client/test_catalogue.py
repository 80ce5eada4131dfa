"""Skills, engines and the service itself; a skill is installed from its folder and removed again."""

from __future__ import annotations

import json
import zipfile
from datetime import timedelta
from pathlib import Path

import pytest

from tests.client.services import Service
from turnkeeper.client import ApiError, AsyncClient, Client, ClientError
from turnkeeper.client.files import landing, opened, packed

OUTPUT = {"type": "object", "required": ["answer"], "properties": {"answer": {"type": "string"}}}


def written(folder: Path, version: str = "1.0.0") -> Path:
    (folder / "assets").mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(f"---\nname: {folder.name}\ndescription: It echoes.\n---\nEcho.\n")
    runner = {"id": folder.name, "version": version, "schemas": {"output": "assets/output.schema.json"}}
    (folder / "assets" / "runner.json").write_text(json.dumps(runner))
    (folder / "assets" / "output.schema.json").write_text(json.dumps(OUTPUT))
    return folder


class TestSkills:
    def test_what_is_there(self, client: Client) -> None:
        skills = {skill.id: skill for skill in client.skills()}
        assert {"interview", "document-summary"} <= set(skills)
        assert skills["interview"] == client.skill("interview")
        assert (skills["interview"].is_broken, skills["interview"].managed) == (False, False)
        assert client.schemas("interview").input is not None
        assert client.schemas("interview").parameter is None
        assert [finding for finding in client.lint("interview") if finding.severity == "error"] == []
        with pytest.raises(ApiError) as refused:
            client.skill("no such skill")
        assert (refused.value.code, refused.value.status) == ("SKILL_NOT_FOUND", 404)

    def test_installed_replaced_and_removed(self, client: Client, tmp_path: Path) -> None:
        folder = written(tmp_path / "echo-one")
        assert client.install_skill(folder).managed
        with pytest.raises(ApiError) as refused:
            client.install_skill(folder)
        assert refused.value.code == "SKILL_VERSION_NOT_HIGHER"
        assert client.install_skill(folder, replace=True).version == "1.0.0"
        assert client.install_skill(written(folder, "1.1")).version == "1.1"
        client.remove_skill("echo-one")
        with pytest.raises(ApiError) as refused:
            client.remove_skill("echo-one")
        assert refused.value.code == "SKILL_NOT_FOUND"

    async def test_from_a_zip(self, aclient: AsyncClient, tmp_path: Path) -> None:
        with packed(written(tmp_path / "echo-two")) as archive:
            (tmp_path / "echo.zip").write_bytes(archive.read())
        skill = await aclient.install_skill(tmp_path / "echo.zip")
        assert skill.id == "echo-two"
        await aclient.remove_skill(skill.id)

    def test_what_is_no_skill(self, client: Client, tmp_path: Path) -> None:
        with pytest.raises(ClientError, match=r"has no SKILL\.md"):
            client.install_skill(tmp_path)
        with pytest.raises(ClientError, match="cannot be read: No such file"):
            client.install_skill(tmp_path / "nowhere.zip")
        (tmp_path / "no.zip").write_text("words")
        with pytest.raises(ApiError) as refused:
            client.install_skill(tmp_path / "no.zip")
        assert refused.value.code == "ARCHIVE_REFUSED"


class TestZip:
    def test_the_same_folder_is_the_same_zip_without_clutter(self, tmp_path: Path) -> None:
        first, second = written(tmp_path / "a" / "echo"), written(tmp_path / "b" / "echo")
        (first / "run.sh").write_text("true\n")
        (second / "run.sh").write_text("true\n")
        for folder in (first, second):
            (folder / "run.sh").chmod(0o755)
        for clutter in (".git/config", "__pycache__/x.pyc", "assets/.DS_Store", "y.pyc"):
            (second / clutter).parent.mkdir(exist_ok=True)
            (second / clutter).write_text("clutter")
        with packed(first) as one, packed(second) as other:
            assert one.read() == other.read()
            with zipfile.ZipFile(other) as read:
                modes = {each.filename: each.external_attr >> 16 & 0o777 for each in read.infolist()}
        assert modes == {
            "echo/SKILL.md": 0o644,
            "echo/assets/output.schema.json": 0o644,
            "echo/assets/runner.json": 0o644,
            "echo/run.sh": 0o755,
        }

    def test_the_folder_one_stands_in(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(written(tmp_path / "echo"))
        with packed(".") as archive, zipfile.ZipFile(archive) as read:
            assert "echo/SKILL.md" in read.namelist()

    def test_links_do_not_come_along(self, tmp_path: Path) -> None:
        folder = written(tmp_path / "echo")
        (folder / "secret").symlink_to("/etc/hostname")
        with pytest.raises(ClientError, match="is a link"), packed(folder):
            pass


class TestSources:
    def test_one_or_many(self, tmp_path: Path) -> None:
        path = tmp_path / "one.txt"
        path.write_text("1")
        with opened({"a": str(path), "b": [path, b"2"], "c": ("3.txt", b"3"), "d": (path, path)}) as upload:
            assert upload.names == {"a": "one.txt", "b": ["one.txt", "b"], "c": "3.txt", "d": ["one.txt"] * 2}
            assert [key for key, _ in upload.parts] == ["a", "b", "b", "c", "d", "d"]

    def test_anything_else_is_said(self) -> None:
        with pytest.raises(TypeError, match="as a path, as bytes"), opened({"a": 5}):  # type: ignore[dict-item]
            pass


def test_a_name_as_long_as_names_can_be(tmp_path: Path) -> None:
    with landing(tmp_path, "n" * 255) as (path, file):
        file.write(b"whole")
    assert path.read_bytes() == b"whole"
    assert [each for each in tmp_path.iterdir() if each.is_file()] == [path]


class TestService:
    def test_engines_and_status(self, client: Client) -> None:
        demo = client.engine("demo")
        assert (demo.ready, demo.name) == (True, "demo")
        assert demo in client.engines()
        assert "ask" in demo.permissions
        status = client.status()
        assert status.status == "ready"
        assert status.slots.total >= status.slots.free
        assert set(status.runs) >= {"queued", "succeeded"}

    def test_prune(self, client: Client) -> None:
        """Others use this service, too: what is removed here is what only this test has."""
        run = client.run("interview", engine="demo", interactive=True)
        run.info(wait=30)
        run.cancel()
        found = client.prune(older_than=0, status="canceled", dry_run=True)
        (mine,) = [each for each in found.runs if each.run_id == run.id]
        assert (mine.status, mine.skill_id, mine.since) == ("canceled", "interview", run.info().finished_at)
        assert found.bytes.total == found.bytes.homes + found.bytes.logs + found.bytes.files > 0
        assert (found.dry_run, found.only, found.remaining_bytes) == (True, "runs", None)
        homes = client.prune(timedelta(0), status=["canceled"], only="homes")
        assert run.id in [each.run_id for each in homes.runs]
        assert run.info().status == "canceled"
        assert client.prune(keep_bytes=10**15).remaining_bytes is not None
        with pytest.raises(ApiError) as refused:
            client.prune()
        assert (refused.value.code, refused.value.status) == ("INVALID_REQUEST", 400)

    async def test_prune_meanwhile(self, aclient: AsyncClient) -> None:
        found = await aclient.prune(timedelta(days=1000), keep_bytes=10**15, only="logs", dry_run=True)
        assert (found.count, found.only, found.runs) == (0, "logs", ())

    def test_sign_in(self, client: Client, service: Service) -> None:
        sign_in = client.sign_in()
        assert sign_in.url == f"{service.url}/#code={sign_in.code}"
        assert sign_in.code not in repr(sign_in)

    def test_answer_link(self, client: Client, service: Service) -> None:
        run = client.run("interview", engine="demo", interactive=True)
        run.info(wait=60)
        link = client.answer_link(run.id, for_="Anna", expires_in=timedelta(hours=1))
        assert link.url.startswith(f"{service.url}/#answer=tkl_")
        assert link.interaction_id == 1
        assert "tkl_" not in repr(link)
        with pytest.raises(ApiError) as refused:
            client.answer_link(run.id, interaction_id=2)
        assert (refused.value.code, refused.value.status) == ("INTERACTION_STALE", 409)
        run.cancel()

    async def test_answer_link_meanwhile(self, aclient: AsyncClient, service: Service) -> None:
        run = await aclient.run("interview", engine="demo", interactive=True)
        await run.info(wait=60)
        link = await aclient.answer_link(run.id, expires_in=60)
        assert link.url.startswith(f"{service.url}/#answer=tkl_")
        await run.cancel()


class TestSecrets:
    def test_set_granted_and_removed(self, client: Client) -> None:
        secret = client.set_secret("CLIENT_TOKEN", "the value of the client")
        assert (secret.name, secret.grants, secret.set_by) == ("CLIENT_TOKEN", (), "token")
        assert client.grant_secret("CLIENT_TOKEN", "interview").grants == ("interview",)
        assert "CLIENT_TOKEN" in {each.name for each in client.secrets()}
        assert client.revoke_secret("CLIENT_TOKEN", "interview").grants == ()
        client.remove_secret("CLIENT_TOKEN")
        with pytest.raises(ApiError) as refused:
            client.grant_secret("CLIENT_TOKEN", "interview")
        assert (refused.value.code, refused.value.status) == ("SECRET_NOT_FOUND", 404)
        with pytest.raises(ApiError) as refused:
            client.set_secret("PATH", "/tmp/of/somebody/else")
        assert refused.value.code == "SECRET_INVALID"

    async def test_the_same_to_await(self, aclient: AsyncClient) -> None:
        await aclient.set_secret("AWAITED_TOKEN", "the value of the client")
        assert (await aclient.grant_secret("AWAITED_TOKEN", "interview")).grants == ("interview",)
        assert (await aclient.revoke_secret("AWAITED_TOKEN", "interview")).grants == ()
        assert "AWAITED_TOKEN" in {each.name for each in await aclient.secrets()}
        await aclient.remove_secret("AWAITED_TOKEN")
