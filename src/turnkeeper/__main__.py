"""`python -m turnkeeper` and the console script."""

from __future__ import annotations

import sys
from typing import Any

INTERRUPTED = 130


class _Absent:
    """Whatever is imported from it is None."""

    def __getattr__(self, name: str) -> Any:
        return None


# Libraries that bring a command of their own: no command of ours needs it, nor what it loads (for uvicorn click,
# reloaders and worker processes). httpx can do without; uvicorn takes names from there that nobody uses.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
sys.modules.setdefault("uvicorn.main", _Absent())  # type: ignore[arg-type]


def main() -> None:
    # What a command needs takes a moment to load, in which somebody may think better of it.
    try:
        from turnkeeper.cli import app
        from turnkeeper.cli.streams import usable

        with usable():
            app(prog_name="turnkeeper")
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


if __name__ == "__main__":
    main()
