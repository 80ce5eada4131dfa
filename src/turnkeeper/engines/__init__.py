"""How we speak to each agent CLI: one file for each, one port for all."""

from __future__ import annotations

from importlib.metadata import entry_points


def names() -> tuple[str, ...]:
    """Of every engine there is, ours and installed ones; for who only speaks of engines, and makes none."""
    from turnkeeper.engines import registry

    others = (point.name for point in entry_points(group=registry.GROUP))
    return (*(engine.name for engine in registry.BUILT_IN), *others)
