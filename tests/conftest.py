"""Settings that all tests share: the event loop they run on, and how hypothesis looks for counterexamples."""

import os

import pytest
from hypothesis import settings

# No deadline: a slow machine is not a counterexample. No database: a failing example is printed, and belongs
# in the test as an @example. In CI the same commit draws the same examples.
settings.register_profile("local", deadline=None, database=None, print_blob=True)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
