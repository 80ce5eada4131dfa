"""A login by file, as far as it can be played without its provider: lent to one process at a time, and taken back."""

from __future__ import annotations

import json

from tests.harness import Json
from tests.live.clis import SETTINGS, Live, attempts, each, home_of, reaches

FAR = 4102444800000
"""Milliseconds: nothing expires while we test."""
TOKEN = "tk-file-Zr7vQm3xWc9LdT5hYb2NfK8sJg4PaE6uBq1"
LOGINS: dict[str, tuple[str, Json]] = {
    "opencode": (".local/share/opencode/auth.json", {"scripted": {"type": "api", "key": TOKEN}}),
    "claude": (
        ".claude/.credentials.json",
        {"claudeAiOauth": {"accessToken": TOKEN, "expiresAt": FAR, "scopes": ["user:inference"]}},
    ),
    "codex": (".codex/auth.json", {"OPENAI_API_KEY": TOKEN}),
}
"""As a person leaves them who logs in. Gemini's needs Google, and qwen's was given up by its maker."""


def without_key(engine: str, url: str) -> Json:
    settings = SETTINGS[engine](url, "")
    settings["env"] = [entry for entry in settings["env"] if "KEY" not in entry]
    if engine == "codex":
        # Its login is for its maker's address alone, unless the operator's own settings say otherwise.
        own = {"name": "own", "base_url": f"{url}/v1", "wire_api": "responses", "requires_openai_auth": True}
        settings = {
            "model": settings["model"],
            "config": {"model_provider": "own", "model_providers": {"own": own}},
        }
    for provider in settings.get("config", {}).get("provider", {}).values():
        del provider["options"]["apiKey"]
    return settings


@each(*LOGINS)
async def test_login_file_is_lent_to_one_process_at_a_time(live: Live) -> None:
    name, login = LOGINS[live.engine]
    path = live.operator_home / name
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(login))
    settings = without_key(live.engine, live.models.url)
    async with live.service(engines={live.engine: settings}) as place:
        shown = (await place.client.http.get(f"/v1/engines/{live.engine}")).json()
        assert (shown["ready"], shown["login"]) == (True, {"kind": "file", "source": str(path)})
        runs = [await live.start(place, f"[[tell:cat $HOME/{name}]]") for _ in range(2)]
        for run_id in runs:
            await reaches(place, run_id, "succeeded")
        told = [json.dumps(await place.client.events(run_id)) for run_id in runs]
        told += [json.dumps(await place.client.result(run_id)) for run_id in runs]
        [one], [other] = [await attempts(place, run_id) for run_id in runs]
        left = [run_id for run_id in runs if (home_of(place, run_id) / name).exists()]

    seen = live.models.seen()
    assert {each.headers["authorization"] for each in seen} == {f"Bearer {TOKEN}"}
    assert any(who == "tool" and TOKEN in text for each in seen for who, text in each.conversation)
    assert not any(TOKEN in text for text in told)
    first, second = sorted((one, other), key=lambda attempt: str(attempt["started_at"]))
    assert first["ended_at"] <= second["started_at"]
    assert left == []
    assert json.loads(path.read_text()) == login
