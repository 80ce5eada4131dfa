"""What a service has loaded when it is ready. Each of these came with a line that looked harmless, and cost a megabyte
or a tenth of a second of every start: whoever needs one imports it where it is used."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import PATIENCE

LATER = {
    "click": "typer has its own",
    "httpx": "for clients",
    "multiprocessing": "nobody needs it",
    "pydantic.v1": "nobody needs it",
    "rich": "for words on a terminal",
    "turnkeeper.cli.run": "for another command",
    "turnkeeper.client": "for clients",
    "turnkeeper.engines.managed": "for `engines install`",
    "turnkeeper.runtime.doctor": "for `engines doctor`",
}
CODE = """
import atexit, json, sys
from turnkeeper.__main__ import main
atexit.register(lambda: print(json.dumps([name for name, module in sys.modules.items() if module is not None])))
main()
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    home = tmp_path_factory.mktemp("home")
    settings = {"TURNKEEPER_ALLOW_ROOT": "1", "TURNKEEPER_SANDBOX__MODE": "off", "HOME": str(home)}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TURNKEEPER_")}
    with subprocess.Popen(
        [sys.executable, "-c", CODE, "serve", "--json", "--port", "0", "--data-dir", str(home / "data")],
        env=kept | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as service:
        assert service.stdout is not None
        assert json.loads(service.stdout.readline())["pid"] == service.pid
        service.send_signal(signal.SIGTERM)
        told, _ = service.communicate(timeout=PATIENCE)
    return set(json.loads(told))


@pytest.mark.parametrize("name", LATER)
def test_a_service_does_without(loaded: set[str], name: str) -> None:
    assert name not in loaded, LATER[name]


def test_the_models_of_a_description_are_not_put_together(tmp_path: Path) -> None:
    code = "from turnkeeper import web; from fastapi.openapi.models import OpenAPI as m; print(m.__pydantic_complete__)"
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == ["False"]
