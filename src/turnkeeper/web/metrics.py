"""What `/metrics` tells. Loaded by the first scrape: most services have nobody who asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CONTENT_TYPE_LATEST as CONTENT_TYPE
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from turnkeeper.core.statechart import State
from turnkeeper.runtime.disk import Space
from turnkeeper.runtime.house import House

__all__ = ["CONTENT_TYPE", "exposition"]


def exposition(house: House, counts: Mapping[State, int], space: Space) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Snapshot(house, counts, space))
    return generate_latest(registry)


class _Snapshot:
    """Counts as they are at the moment of the scrape."""

    def __init__(self, house: House, counts: Mapping[State, int], space: Space) -> None:
        self._house = house
        self._counts = counts
        self._space = space

    def collect(self) -> Iterable[Metric]:
        house, stats = self._house, self._house.store.stats
        runs = GaugeMetricFamily("turnkeeper_runs", "Runs by state", labels=["state"])
        for state, count in self._counts.items():
            runs.add_metric([state.value], count)
        yield runs
        yield GaugeMetricFamily("turnkeeper_slots", "Slots there are", house.capacity.slots)
        yield GaugeMetricFamily("turnkeeper_slots_busy", "Slots in use", house.dispatcher.busy)
        yield GaugeMetricFamily(
            "turnkeeper_slots_waiting",
            "Slots held by resident runs that wait for a person",
            house.worker.resident,
        )
        yield GaugeMetricFamily(
            "turnkeeper_sticky_slots",
            "Slots that runs of profile sticky_process may hold",
            house.capacity.sticky_slots,
        )
        yield GaugeMetricFamily(
            "turnkeeper_sticky_slots_busy", "Slots held by such runs", house.dispatcher.sticky
        )
        yield GaugeMetricFamily("turnkeeper_queue", "Runs that wait for a slot", house.dispatcher.waiting)
        yield GaugeMetricFamily("turnkeeper_streams", "Open event streams", len(house.feed))
        yield GaugeMetricFamily(
            "turnkeeper_storage_free_bytes", "Free on the disk of the data directory", self._space.free
        )
        yield GaugeMetricFamily(
            "turnkeeper_storage_low",
            "1 while no new work is taken for want of room",
            house.disk.shortage(self._space) is not None,
        )
        yield CounterMetricFamily("turnkeeper_changes", "Changes committed", stats.changes)
        yield CounterMetricFamily("turnkeeper_appends", "Output batches appended", stats.appends)
        yield CounterMetricFamily("turnkeeper_removals", "Runs removed", stats.removals)
        yield CounterMetricFamily("turnkeeper_transactions", "Database transactions", stats.transactions)
        unparsed = CounterMetricFamily(
            "turnkeeper_unparsed_lines", "Lines of engines that nobody understood", labels=["engine"]
        )
        for engine in house.engines:
            unparsed.add_metric([engine], house.worker.unparsed[engine])
        yield unparsed
        if house.alarm is not None:
            hangs = house.alarm.hangs
            yield CounterMetricFamily(
                "turnkeeper_loop_hangs", "Times that the event loop stood still for seconds", hangs.count
            )
            yield GaugeMetricFamily(
                "turnkeeper_loop_hang_longest_seconds", "The longest of them", hangs.longest_sec
            )
