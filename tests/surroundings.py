"""What every service of the tests is started in, by pytest and by the programs beside it.

Whether bubblewrap is installed must not decide what the tests see; those of the sandbox choose for themselves. Engines
in the tests are scripts of ours, and may be root if whoever runs the tests is.
"""

from __future__ import annotations

import os

SETTLED = {"TURNKEEPER_SANDBOX__MODE": "off", "TURNKEEPER_ALLOW_ROOT": "1"}


def settle() -> None:
    for name, value in SETTLED.items():
        os.environ.setdefault(name, value)
