"""Settings that all tests share: signals, the event loop they run on, and how hypothesis looks for counterexamples."""

import os
import signal

import pytest
from hypothesis import settings

from tests.surroundings import settle

# No deadline: a slow machine is not a counterexample. No database: a failing example is printed, and belongs
# in the test as an @example. In CI the same commit draws the same examples.
settings.register_profile("local", deadline=None, database=None, print_blob=True)
settings.register_profile("long", settings.get_profile("local"))
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


settle()

# A script that starts the tests in the background has them ignore Ctrl-C, and every process that they start as well.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
