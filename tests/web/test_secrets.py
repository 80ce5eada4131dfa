"""Named secrets over HTTP: set, granted, given to a turn, taken away again; and no value ever comes back."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.engines.keys import made
from tests.harness import SKILLS, Client, Json, Place, opened, settings_for
from tests.spec.scripts import ANSWER, INTERACTIVE, Latch, script
from tests.web.problems import assert_problem
from tests.web.requests import DONE
from turnkeeper.core.errors import Code, SecretNotGranted, SettingsInvalid
from turnkeeper.runtime.secrets import FILE
from turnkeeper.wiring import running

VALUE, OTHER = "the-first-value-of-it", "another-value-of-it"
NAMES = ("FIRST_TOKEN", "SECOND_TOKEN")


def needing(folder: Path, *names: str) -> Path:
    """A folder with one skill that asks for these."""
    shutil.copytree(SKILLS / "answer", folder / "needs", dirs_exist_ok=True)
    runner = folder / "needs" / "assets" / "runner.json"
    runner.write_text(json.dumps({**json.loads(runner.read_text()), "id": "needs", "secrets": list(names)}))
    return folder


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with opened(tmp_path / "data", skills_dir=(needing(tmp_path / "skills", *NAMES), SKILLS)) as place:
        yield place


@pytest.fixture
def client(place: Place) -> Client:
    return place.client


async def put(client: Client, name: str = "FIRST_TOKEN", value: str = VALUE) -> httpx.Response:
    return await client.http.put(f"/v1/secrets/{name}", json={"value": value})


async def grant(client: Client, name: str = "FIRST_TOKEN", skill: str = "needs") -> httpx.Response:
    return await client.http.put(f"/v1/secrets/{name}/grants/{skill}")


async def listed(client: Client) -> list[Json]:
    return list((await client.http.get("/v1/secrets")).json()["secrets"])


async def both(client: Client) -> None:
    for name in NAMES:
        assert (await put(client, name)).status_code == 200
        assert (await grant(client, name)).status_code == 200


def environment(place: Place, run_id: str) -> dict[str, str]:
    (process,) = place.processes(run_id)
    words = Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
    return dict(word.decode().split("=", 1) for word in words if word)


async def test_set_granted_revoked_and_removed(client: Client, place: Place) -> None:
    made_it = await put(client)
    assert made_it.json() == {
        "name": "FIRST_TOKEN",
        "grants": [],
        "set_at": made_it.json()["set_at"],
        "set_by": "token",
    }
    assert (await grant(client)).json()["grants"] == ["needs"]
    assert (await grant(client)).json()["grants"] == ["needs"]
    assert (await grant(client, skill="another")).json()["grants"] == ["another", "needs"]
    replaced = await put(client, value=OTHER)
    assert replaced.json()["grants"] == ["another", "needs"], "another value is for the same skills"
    assert await listed(client) == [replaced.json()]
    kept = place.settings.data_dir / FILE
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert json.loads(kept.read_text())["secrets"]["FIRST_TOKEN"]["value"] == OTHER
    gone = await client.http.delete("/v1/secrets/FIRST_TOKEN/grants/needs")
    assert gone.json()["grants"] == ["another"]
    assert (await client.http.delete("/v1/secrets/FIRST_TOKEN/grants/needs")).json()["grants"] == ["another"]
    assert (await client.http.delete("/v1/secrets/FIRST_TOKEN")).json() == {
        "name": "FIRST_TOKEN",
        "removed": True,
    }
    assert await listed(client) == []
    for method, path in (("DELETE", ""), ("PUT", "/grants/needs"), ("DELETE", "/grants/needs")):
        answer = await client.http.request(method, f"/v1/secrets/FIRST_TOKEN{path}")
        assert_problem(answer, 404, Code.SECRET_NOT_FOUND)
    assert OTHER not in kept.read_text()


@pytest.mark.parametrize(
    "name",
    [
        *(
            "lower",
            "1ST",
            "WITH-HYPHEN",
            "A" * 65,
            "PATH",
            "HOME",
            "LD_PRELOAD",
            "LD_ANYTHING",
            "NODE_OPTIONS",
        ),
        *(
            "PYTHONPATH",
            "PYTHONSTARTUP",
            "BASH_ENV",
            "GIT_SSH_COMMAND",
            "TURNKEEPER_TOKEN",
            "HTTPS_PROXY",
            "TMPDIR",
        ),
        *(
            "OPENAI_API_KEY",
            "ANTHROPIC_API_KEY",
            "NPM_CONFIG_REGISTRY",
            "SSL_CERT_FILE",
            "GIT_TERMINAL_PROMPT",
        ),
        *(
            "OPENSSL_CONF",
            "SSLKEYLOGFILE",
            "GIT_SEQUENCE_EDITOR",
            "UV_INDEX_URL",
            "CARGO_HOME",
            "RUSTC_WRAPPER",
        ),
        *("LESSOPEN", "HOSTALIASES", "NODE_V8_COVERAGE", "AWS_CA_BUNDLE", "AWS_ENDPOINT_URL_S3", "GOFLAGS"),
        *("MAKEFLAGS", "TAR_OPTIONS", "ZDOTDIR", "R_PROFILE", "JAVA_OPTS"),
    ],
)
async def test_names_that_would_change_how_a_program_starts(client: Client, name: str) -> None:
    assert_problem(await put(client, name), 400, Code.SECRET_INVALID)
    assert await listed(client) == []


@pytest.mark.parametrize(
    "name", ["GITHUB_TOKEN", "GITLAB_TOKEN", "AWS_SECRET_ACCESS_KEY", "SLACK_TOKEN", "NPM_TOKEN"]
)
async def test_names_that_people_use(client: Client, name: str) -> None:
    assert (await put(client, name)).status_code == 200


@pytest.mark.parametrize(
    "value",
    [
        *("short-7", " \n short \n ", "with\0nul-in-it", "x" * (64 * 1024 + 1), "é" * 33_000),
        # Found in ordinary texts, these would be stars there: a text with all numbers would tell which it is.
        *("48151623", "123456789012345", "password", "localhost", "changeme", "xxxxxxxxxxxxxxx"),
    ],
)
async def test_values_that_cannot_be_kept_or_hidden(client: Client, value: str) -> None:
    answer = await put(client, value=value)
    assert_problem(answer, 400, Code.SECRET_INVALID)
    assert value.strip() not in answer.text
    assert await listed(client) == []


@pytest.mark.parametrize(
    "body", [{}, {"value": 12345678}, {"value": VALUE, "more": 1}, {"value": None}, [], VALUE]
)
async def test_bodies_that_are_refused_do_not_come_back(client: Client, body: object) -> None:
    answer = await client.http.put("/v1/secrets/FIRST_TOKEN", json=body)
    assert answer.status_code == 400
    assert VALUE not in answer.text
    assert await listed(client) == []


async def test_longest_value(client: Client, place: Place) -> None:
    value = "x" * (64 * 1024)
    assert (await put(client, value=value)).status_code == 200
    assert place.house.secrecy.hide_text(f"it is {value}") == "it is " + "*" * len(value)


async def test_a_job_whose_secrets_are_missing_is_refused_and_not_stored(client: Client) -> None:
    answer = await client.post_job("needs", script([DONE]))
    problem = assert_problem(answer, 409, Code.SECRET_NOT_GRANTED)
    assert [each["name"] for each in problem["secrets"]] == list(NAMES)
    assert (
        "turnkeeper secrets set FIRST_TOKEN && turnkeeper secrets grant FIRST_TOKEN needs"
        in problem["detail"]
    )
    await put(client)
    await put(client, "SECOND_TOKEN")
    await grant(client, "SECOND_TOKEN")
    problem = assert_problem(await client.post_job("needs", script([DONE])), 409, Code.SECRET_NOT_GRANTED)
    (missing,) = problem["secrets"]
    assert missing == {
        "name": "FIRST_TOKEN",
        "why": "is not granted to it",
        "fix": "turnkeeper secrets grant FIRST_TOKEN needs",
    }
    assert await client.runs() == []


async def test_the_process_has_it_and_nothing_else_does(client: Client, place: Place, tmp_path: Path) -> None:
    await both(client)
    skill = (await client.http.get("/v1/skills/needs")).json()
    assert skill["secrets"] == list(NAMES)
    latch = Latch(tmp_path)
    run_id = await client.create("needs", script([*latch.steps, DONE]))
    await latch.reached()
    assert {name: environment(place, run_id).get(name) for name in NAMES} == dict.fromkeys(NAMES, VALUE)
    latch.open()
    assert (await client.ended(run_id))["status"] == "succeeded"
    (attempt,) = (await client.http.get(f"/v1/jobs/{run_id}/attempts")).json()["attempts"]
    assert [attempt["launch"]["env"][name] for name in NAMES] == [None, None]
    for path in place.settings.data_dir.rglob("*"):
        assert not path.is_file() or path.name == FILE or VALUE.encode() not in path.read_bytes(), path


async def test_a_skill_that_does_not_ask_is_not_given_any(
    client: Client, place: Place, tmp_path: Path
) -> None:
    await both(client)
    await grant(client, skill="answer")
    latch = Latch(tmp_path)
    run_id = await client.create("answer", script([*latch.steps, DONE]))
    await latch.reached()
    assert not set(NAMES) & set(environment(place, run_id))
    latch.open()
    await client.ended(run_id)


@pytest.mark.parametrize("path", ["/v1/secrets/FIRST_TOKEN", "/v1/secrets/FIRST_TOKEN/grants/needs"])
async def test_taken_away_between_two_turns(client: Client, place: Place, path: str) -> None:
    await both(client)
    run_id = await client.create("needs", script([{"say": "Which?"}], [DONE]), **INTERACTIVE)
    assert (await client.settled(run_id))["status"] == "waiting_user"
    assert (await client.http.delete(path)).status_code == 200
    await client.reply(run_id, "blue")
    run = await client.ended(run_id)
    assert (run["status"], run["error"]["code"]) == ("failed", "SECRET_NOT_GRANTED")
    assert "turnkeeper secrets grant FIRST_TOKEN needs" in run["error"]["message"]
    attempts = (await client.http.get(f"/v1/jobs/{run_id}/attempts")).json()["attempts"]
    assert attempts[-1]["pid"] is None, "no process was started"


async def test_a_turn_has_the_value_of_its_beginning(client: Client, place: Place, tmp_path: Path) -> None:
    await both(client)
    latch = Latch(tmp_path)
    run_id = await client.create("needs", script([{"say": "Which?"}], [*latch.steps, DONE]), **INTERACTIVE)
    await client.settled(run_id)
    await put(client, value=OTHER)
    await client.reply(run_id, f"{VALUE} or {OTHER}?")
    await latch.reached()
    assert environment(place, run_id)["FIRST_TOKEN"] == OTHER
    latch.open()
    await client.ended(run_id)
    (answered,) = await client.history(run_id)
    assert answered["response"] == f"{'*' * len(VALUE)} or {'*' * len(OTHER)}?", (
        "the old one is a secret, too"
    )


async def test_kept_over_a_restart(tmp_path: Path) -> None:
    skills = (needing(tmp_path / "skills", *NAMES), SKILLS)
    async with opened(tmp_path / "data", skills_dir=skills) as place:
        await both(place.client)
        before = await listed(place.client)
    async with opened(tmp_path / "data", skills_dir=skills) as place:
        assert await listed(place.client) == before
        assert place.house.secrecy.hide_text(VALUE) == "*" * len(VALUE)
        run_id = await place.client.create("needs", script([DONE]))
        assert (await place.client.ended(run_id))["status"] == "succeeded"


@pytest.mark.parametrize(
    ("words", "mode", "told"),
    [
        ("{}", 0o644, "can be read by others; run: chmod 600"),
        ("{", 0o600, "is not as it was written"),
        ('{"version": 2, "secrets": {}}', 0o600, "is not as it was written"),
        (
            '{"version": 1, "secrets": {"LD_PRELOAD": {"value": "/tmp/evil.so"}}}',
            0o600,
            "is not as it was written",
        ),
        ("[" * 100_000, 0o600, "is not as it was written"),
    ],
)
async def test_a_file_that_is_not_ours_stops_the_start(
    tmp_path: Path, words: str, mode: int, told: str
) -> None:
    kept = tmp_path / "data" / FILE
    kept.parent.mkdir()
    kept.write_text(words)
    kept.chmod(mode)
    for _ in range(2):  # and lets go of the data directory
        with pytest.raises(SettingsInvalid, match=told):
            async with running(settings_for(tmp_path / "data")):
                pass
    assert kept.read_text() == words


async def test_a_name_that_is_reserved_by_now_is_kept_and_given_to_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A new version knows more of them: it starts, gives nobody that one, and hides its value."""
    kept = tmp_path / "data" / FILE
    kept.parent.mkdir()
    entry = {"set_at": "2026-11-18T00:00:00Z", "set_by": "token", "grants": ["needs"]}
    secrets = {"GIT_ANYTHING": {"value": OTHER, **entry}, "FIRST_TOKEN": {"value": VALUE, **entry}}
    kept.write_text(json.dumps({"version": 1, "secrets": secrets}))
    kept.chmod(0o600)
    async with opened(tmp_path / "data") as place:
        assert [each["name"] for each in await listed(place.client)] == ["FIRST_TOKEN", "GIT_ANYTHING"]
        assert place.house.secrecy.hide_text(OTHER) == "*" * len(OTHER)
        with pytest.raises(SecretNotGranted, match="its name"):
            place.house.secrets.given("needs", ["GIT_ANYTHING"])
        place.house.secrets.revoke("FIRST_TOKEN", "needs")
    assert OTHER in json.loads(kept.read_text())["secrets"]["GIT_ANYTHING"]["value"], "nothing is lost"
    assert "the secret GIT_ANYTHING is given to nobody" in caplog.text


async def test_what_a_killed_service_had_begun_to_write_is_gone(tmp_path: Path) -> None:
    begun = tmp_path / "data" / f"{FILE}.new"
    begun.parent.mkdir()
    begun.write_text(VALUE)
    async with opened(tmp_path / "data"):
        assert not begun.exists()


async def test_what_cannot_be_put_in_place_is_not_left_beside_it(client: Client, place: Place) -> None:
    kept = place.settings.data_dir / FILE
    kept.mkdir()  # nothing can be renamed over a folder
    assert_problem(await put(client), 503, Code.STORAGE_UNAVAILABLE)
    assert not kept.with_name(f"{FILE}.new").exists()


async def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text('{"version": 1, "secrets": {}}')
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SettingsInvalid, match="cannot be used"):
        async with running(settings_for(tmp_path / "data")):
            pass


async def test_a_disk_that_refuses_leaves_everything_as_it_was(client: Client, place: Place) -> None:
    await both(client)
    before, data = await listed(client), place.settings.data_dir
    (data / f"{FILE}.new").mkdir()
    (data / f"{FILE}.new" / "x").touch()
    for answer in (
        await put(client, value=OTHER),
        await client.http.delete("/v1/secrets/FIRST_TOKEN"),
        await grant(client, skill="another"),
    ):
        assert_problem(answer, 503, Code.STORAGE_UNAVAILABLE)
    assert await listed(client) == before
    assert json.loads((data / FILE).read_text())["secrets"]["FIRST_TOKEN"]["value"] == VALUE
    (data / f"{FILE}.new" / "x").unlink()
    (data / f"{FILE}.new").rmdir()
    assert (await put(client, value=OTHER)).status_code == 200


async def test_a_job_with_a_key_is_told_so_and_its_repeat_is_the_same(client: Client) -> None:
    body = {"skill_id": "answer", "engine": "demo", "input": {"a": [made("github")]}, "parameter": {"b": 1}}
    headers = {"Idempotency-Key": "once"}
    first, again = [await client.http.post("/v1/jobs", json=body, headers=headers) for _ in range(2)]
    assert first.json()["run_id"] == again.json()["run_id"]
    run = await client.ended(first.json()["run_id"])
    (warning,) = [each for each in run["warnings"] if each["code"] == "SECRET_MASKED"]
    assert "at /input/a/0;" in warning["message"]
    request = (await client.http.get(f"/v1/jobs/{run['run_id']}/request")).json()
    assert request["input"] == {"a": ["*" * 40]}


async def test_the_same_reply_again_also_when_its_words_became_a_secret(client: Client) -> None:
    run_id = await client.create("answer", script([{"say": "Which?"}], [ANSWER]), **INTERACTIVE)
    await client.settled(run_id)
    first = await client.post_reply(run_id, 1, f"use {VALUE}")
    await put(client)
    again = await client.post_reply(run_id, 1, f"use {VALUE}")
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json()["accepted_at"] == again.json()["accepted_at"]
    assert_problem(await client.post_reply(run_id, 1, "use another"), 409, Code.INTERACTION_ANSWERED)


async def test_an_uploaded_file_is_not_named_by_a_key(client: Client) -> None:
    run_id = await client.create("filed", script([DONE]), input={"title": "it"})
    files = {"document": (f"{made('aws')}.txt", b"words")}
    answer = await client.http.post(f"/v1/jobs/{run_id}/upload", files=files)
    assert_problem(answer, 400, Code.INPUT_INVALID)
    assert made("aws") not in answer.text
    await client.cancel(run_id)


async def test_a_skill_with_a_key_in_its_words_is_shown_with_stars(tmp_path: Path) -> None:
    skills = needing(tmp_path / "skills")
    assets, words = skills / "needs" / "assets", skills / "needs" / "SKILL.md"
    words.write_text(
        words.read_text().replace("description: ", f"description: use {VALUE} or {made('github')} ")
    )
    schema = json.loads((assets / "output.schema.json").read_text())
    (assets / "output.schema.json").write_text(json.dumps({**schema, "description": made("github")}))
    async with opened(tmp_path / "data", skills_dir=(skills, SKILLS)) as place:
        await put(place.client)
        for path in ("/v1/skills", "/v1/skills/needs", "/v1/skills/needs/schemas", "/v1/skills/needs/lint"):
            answer = await place.client.http.get(path)
            assert answer.status_code == 200
            assert VALUE not in answer.text
            assert made("github") not in answer.text
        skill = (await place.client.http.get("/v1/skills/needs")).json()
        (warning,) = [each for each in skill["warnings"] if each["code"] == "SECRET_MASKED"]
        assert warning["message"].endswith("/description, /output/description")
