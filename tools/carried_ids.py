"""A plugin of pytest, for workers as well: hangs the ids that a test carries on its reports, so that they come back.

It stands alone because pytest wants to be the first to import it.
"""

import pytest

MARKS = ("spec", "failure")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.user_properties += [
            (mark, [str(each) for found in item.iter_markers(mark) for each in found.args]) for mark in MARKS
        ]
