"""What a run of two turns costs in things that can be counted: a change that adds one of them is seen here."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.bench import Bench, made_engine
from bench.measures import counts
from bench.service import Service, counted_service
from bench.wire import connected


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(made_engine(tmp_path), tmp_path, is_quick=True)


async def test_a_run_of_two_turns(bench: Bench) -> None:
    with counted_service(bench.fresh(), bench.engine) as service:
        async with connected(service) as wire:
            counted = await counts.counted(service, wire)
            left = held(service)
    assert counted["commits besides batches of output"] <= 8
    assert counted["files opened"] <= 25
    assert counted["processes started"] == 2
    assert counted["database files"] == 1
    assert left["processes"] == 0


def held(service: Service) -> dict[str, int]:
    return {"processes": service.children}
