"""`python -m turnkeeper` and the console script."""

from __future__ import annotations

import sys

INTERRUPTED = 130

# httpx brings a command of its own, and with it a tenth of a second of imports that no command of ours needs.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]


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
