"""What a run leaves behind can be had; what lies around it cannot, whatever an agent puts in the way."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from tests.engines.keys import made
from tests.harness import PATIENCE, Client, Json, Place
from tests.spec.scripts import ANSWER, ASK, INTERACTIVE, Latch, script
from tests.web.problems import assert_problem
from tests.web.requests import DONE
from turnkeeper.core.errors import Code


def file(path: str, text: str = "words") -> Json:
    return {"write_file": {"path": path, "text": text}}


async def finished(client: Client, skill: str, *steps: Json) -> str:
    run_id = await client.create(skill, script([*steps]))
    await client.settled(run_id)
    return run_id


async def listed(client: Client, run_id: str) -> list[Json]:
    answer = await client.http.get(f"/v1/jobs/{run_id}/artifacts")
    assert answer.status_code == 200, answer.text
    assert answer.json()["request_id"] == run_id
    return list(answer.json()["artifacts"])


async def fetched(client: Client, run_id: str, path: str) -> httpx.Response:
    """By a path as it is; nothing is tidied up on the way."""
    target = f"/v1/jobs/{run_id}/artifacts/{quote(path, safe='/%')}"
    return await client.http.get("/", extensions={"target": target.encode()})


class TestResult:
    async def test_none_before_and_the_same_ever_after(self, client: Client, latch: Latch) -> None:
        run_id = await client.create("answer", script([*latch.steps, ASK], [ANSWER]), **INTERACTIVE)
        url = f"/v1/jobs/{run_id}/result"
        await latch.reached()
        problem = assert_problem(await client.http.get(url), 409, Code.RESULT_NOT_AVAILABLE)
        assert problem["state"] == "running"
        latch.open()
        await client.settled(run_id)
        problem = assert_problem(await client.http.get(url), 409, Code.RESULT_NOT_AVAILABLE)
        assert problem["state"] == "waiting_user"
        await client.reply(run_id, "blue")
        await client.settled(run_id)
        for _ in range(2):
            answer = await client.http.get(url)
            assert answer.json() == {
                "request_id": run_id,
                "status": "succeeded",
                "result": {"answer": "blue"},
                "warnings": [],
            }

    async def test_failed_run_says_why_there_is_none(self, client: Client) -> None:
        run_id = await finished(client, "answer", {"say": "no JSON today"})
        answer = await client.http.get(f"/v1/jobs/{run_id}/result")
        problem = assert_problem(answer, 409, Code.RESULT_NOT_AVAILABLE)
        assert problem["state"] == "failed"
        assert "OUTPUT_INVALID" in problem["detail"]


class TestArtifacts:
    async def test_those_that_the_skill_declares(self, client: Client) -> None:
        run_id = await finished(
            client,
            "papers",
            file("report.md", "# Report"),
            file("charts/one.svg"),
            file("charts/2026/two.svg"),
            file("charts/notes.txt"),
            file("sub/report.md"),
            file("scratch.txt"),
            DONE,
        )
        assert await listed(client, run_id) == [
            {"path": path, "kind": "file", "size": size, "mime": mime, "role": role, "target": None}
            for path, size, mime, role in (
                ("report.md", 8, "text/markdown", "report"),
                ("charts/one.svg", 5, "image/svg+xml", "chart"),
                ("charts/2026/two.svg", 5, "image/svg+xml", "chart"),
            )
        ]
        answer = await fetched(client, run_id, "report.md")
        assert (answer.status_code, answer.content) == (200, b"# Report")

    async def test_required_one_that_is_missing_fails_the_run(self, client: Client) -> None:
        run_id = await finished(client, "papers", file("charts/one.svg"), DONE)
        run = await client.get(run_id)
        assert (run["status"], run["error"]["code"]) == ("failed", "OUTPUT_INVALID")
        assert "'report.md'" in run["error"]["message"]

    async def test_all_files_when_none_are_declared(self, client: Client) -> None:
        run_id = await finished(client, "answer", file("b.txt", "bb"), file("a/c.json", "{}"), DONE)
        assert [(each["path"], each["size"], each["role"]) for each in await listed(client, run_id)] == [
            ("b.txt", 2, None),
            ("a/c.json", 2, None),
        ]

    async def test_none_before_the_run_has_a_folder(
        self, tmp_path: Path, client: Client, latch: Latch
    ) -> None:
        run_id = await client.create("answer", script([*latch.steps, DONE]))
        await latch.reached()
        assert await listed(client, run_id) == []
        latch.open()
        await client.settled(run_id)

    async def test_download_cannot_run_in_a_browser(self, client: Client) -> None:
        run_id = await finished(client, "answer", file("page.html", "<script>alert(1)</script>"), DONE)
        answer = await fetched(client, run_id, "page.html")
        assert answer.headers["content-type"] == "application/octet-stream"
        disposition = "attachment; filename=\"page.html\"; filename*=UTF-8''page.html"
        assert answer.headers["content-disposition"] == disposition
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-length"] == "25"

    async def test_large_file_comes_whole(self, place: Place, client: Client) -> None:
        run_id = await finished(client, "answer", DONE)
        data = os.urandom(3_000_000)
        (place.house.stage.folder(run_id).workspace / "large.bin").write_bytes(data)
        assert (await fetched(client, run_id, "large.bin")).content == data

    @pytest.mark.failure("A07")
    @pytest.mark.parametrize(
        "path",
        [
            "..",
            "../skill/SKILL.md",
            "../home/.demo/job.json",
            "a/../../skill/SKILL.md",
            "a/../b.txt",
            "%2e%2e/skill/SKILL.md",
            "..%2fskill/SKILL.md",
            "/etc/passwd",
            "//etc/passwd",
            "///etc/passwd",
            "%2fetc/passwd",
            "%2f%2fetc/passwd",
            "b.txt/../../skill/SKILL.md",
            "b.txt%00",
            "b.txt%00.svg",
            "",
            ".",
            "a",
            "nothing.txt",
            "b.txt/x",
            "x" * 300,
            "x/" * 1500 + "x",
        ],
        ids=lambda path: path[:24],
    )
    async def test_no_path_leads_out(self, client: Client, crowded: str, path: str) -> None:
        assert_problem(await fetched(client, crowded, path), 404, Code.FILE_NOT_FOUND)

    @pytest.fixture(scope="class")
    async def crowded(self, client: Client, place: Place) -> str:
        """A workspace in which an agent has left traps beside two honest files."""
        run_id = await finished(client, "answer", file("b.txt", "b"), file("a/c.txt", "c"), DONE)
        workspace = place.house.stage.folder(run_id).workspace
        (workspace / "passwd").symlink_to("/etc/passwd")
        (workspace / "near").symlink_to("b.txt")
        (workspace / "etc").symlink_to("/etc")
        (workspace / "a" / "up").symlink_to("..")
        (workspace / "self").symlink_to("self")
        (workspace / "nowhere").symlink_to("/nowhere/at/all")
        os.mkfifo(workspace / "pipe")
        return run_id

    @pytest.mark.failure("A07")
    @pytest.mark.parametrize(
        "path",
        ["passwd", "near", "etc/passwd", "a/up/b.txt", "a/up/passwd", "self", "nowhere", "pipe", "etc"],
    )
    async def test_links_and_pipes_are_not_followed(self, client: Client, crowded: str, path: str) -> None:
        answer = await asyncio.wait_for(fetched(client, crowded, path), PATIENCE)
        assert_problem(answer, 404, Code.FILE_NOT_FOUND)

    @pytest.mark.failure("A07")
    async def test_links_are_told_of_and_pipes_are_not(self, client: Client, crowded: str) -> None:
        told = [(each["path"], each["kind"], each["target"]) for each in await listed(client, crowded)]
        assert sorted(told) == [
            ("a/c.txt", "file", None),
            ("a/up", "link", ".."),
            ("b.txt", "file", None),
            ("etc", "link", "/etc"),
            ("near", "link", "b.txt"),
            ("nowhere", "link", "/nowhere/at/all"),
            ("passwd", "link", "/etc/passwd"),
            ("self", "link", "self"),
        ]
        answer = await fetched(client, crowded, "near")
        assert "is a link, which is not followed" in answer.json()["detail"]

    @pytest.mark.failure("A07")
    async def test_where_a_link_leads_is_cut_and_hides_keys(self, client: Client, place: Place) -> None:
        run_id = await finished(client, "answer", DONE)
        workspace = place.house.stage.folder(run_id).workspace
        key = made("github")
        (workspace / "one").symlink_to(f"/x/{key}")
        (workspace / "two").symlink_to("y/" * 300)
        first, second = await listed(client, run_id)
        assert first["target"] == "/x/" + "*" * len(key)
        assert second["target"] == "y/" * 100

    @pytest.mark.failure("A07")
    async def test_workspace_that_was_swapped_for_a_link(self, client: Client, place: Place) -> None:
        run_id = await finished(client, "answer", file("sub/b.txt"), DONE)
        sub = place.house.stage.folder(run_id).workspace / "sub"
        sub.rename(sub.with_name("moved"))
        sub.symlink_to("/etc")
        assert_problem(await fetched(client, run_id, "sub/passwd"), 404, Code.FILE_NOT_FOUND)

    @pytest.mark.failure("A08")
    @pytest.mark.parametrize(
        "name",
        [
            "two\nlines.txt",
            "ends with one\n",
            "\r\nSet-Cookie: a=b",
            "<img src=x onerror=alert(1)>.html",
            "\u202egpj.exe",
            "ümläut 🐝.txt",
            '"; filename="other',
            "100%25.txt",
            "a?b#c&d=e.txt",
            "back\\slash",
            " blank ",
            "-rf",
            "...",
            "x" * 255,
        ],
        ids=lambda name: repr(name)[:24],
    )
    async def test_odd_names_are_names(self, client: Client, place: Place, honest: str, name: str) -> None:
        workspace = place.house.stage.folder(honest).workspace
        (workspace / name).write_text(name)
        try:
            assert name in [each["path"] for each in await listed(client, honest)]
            answer = await fetched(client, honest, quote(name, safe=""))
            assert (answer.status_code, answer.content) == (200, name.encode())
            assert "set-cookie" not in answer.headers
        finally:
            (workspace / name).unlink()

    @pytest.fixture(scope="class")
    async def honest(self, client: Client) -> str:
        return await finished(client, "answer", file("ends with one", "another file"), DONE)

    @pytest.mark.failure("A08")
    async def test_name_that_is_no_text_is_left_out(self, client: Client, place: Place, honest: str) -> None:
        path = os.fsencode(place.house.stage.folder(honest).workspace) + b"/\xff\xfe.txt"
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
        try:
            assert [each["path"] for each in await listed(client, honest)] == ["ends with one"]
        finally:
            os.unlink(path)  # noqa: PTH108  (a name that pathlib would show as something else)

    @pytest.mark.failure("A08")
    async def test_plain_skill_survives_an_odd_name(self, client: Client, latch: Latch, place: Place) -> None:
        """Its result names every file, so a name that cannot be stored would take the run down with it."""
        run_id = await client.create("plain", script([file("good.txt"), *latch.steps, {"say": "done"}]))
        await latch.reached()
        path = os.fsencode(place.house.stage.folder(run_id).workspace) + b"/\xff"
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
        latch.open()
        await client.settled(run_id)
        assert await client.result(run_id) == {"text": "done", "artifacts": ["good.txt"]}

    @pytest.mark.failure("A09")
    async def test_sparse_file_is_not_read_at_once(self, client: Client, place: Place) -> None:
        run_id = await finished(client, "answer", DONE)
        huge = place.house.stage.folder(run_id).workspace / "huge.bin"
        with huge.open("wb") as out:
            out.truncate(20 * 1024**3)
        (entry,) = await listed(client, run_id)
        assert entry["size"] == 20 * 1024**3
        url = f"/v1/jobs/{run_id}/artifacts/huge.bin"
        async with client.http.stream("GET", url) as answer:
            assert answer.headers["content-length"] == str(20 * 1024**3)
            assert await anext(answer.aiter_bytes())
        huge.unlink()

    @pytest.mark.failure("A09")
    async def test_growing_file_is_sent_as_long_as_it_was(self, client: Client, place: Place) -> None:
        run_id = await finished(client, "answer", DONE)
        path = place.house.stage.folder(run_id).workspace / "log.txt"
        path.write_bytes(b"x" * 2_000_000)
        async with client.http.stream("GET", f"/v1/jobs/{run_id}/artifacts/log.txt") as answer:
            with path.open("ab") as out:
                out.write(b"more" * 100_000)
            assert len(await answer.aread()) == 2_000_000

    async def test_no_file_stays_open(self, client: Client, place: Place) -> None:
        run_id = await finished(client, "answer", file("b.txt"), DONE)
        workspace = str(place.house.stage.folder(run_id).workspace)
        for path in ("b.txt", "nothing", "../x", "."):
            await fetched(client, run_id, path)
        held = [os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]  # noqa: PTH115
        assert not [path for path in held if path.startswith(workspace)]
