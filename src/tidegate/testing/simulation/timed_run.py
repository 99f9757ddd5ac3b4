"""One run over event time: small, with faults or without, judged by what its world has seen.

When the input rests, every operator must stand where the rows say, and all windows up to there must be out. Then the query is drained, and
every row that may not be late must be in its output.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, fields, replace
from functools import cached_property

from tidegate.checkpoint import events as ev
from tidegate.model.elements import WATERMARK_MIN_US
from tidegate.testing.simulation.driver import SimulatedDriver
from tidegate.testing.simulation.faults import Faults
from tidegate.testing.simulation.judging import visible_rows
from tidegate.testing.simulation.lateness import Lateness, floored
from tidegate.testing.simulation.manner import Manner
from tidegate.testing.simulation.positions import rows_read
from tidegate.testing.simulation.timed_judging import TimedJudge
from tidegate.testing.simulation.timed_queries import STATEFUL, timed_query
from tidegate.testing.simulation.timed_worlds import TimedWorld, random_world
from tidegate.testing.simulation.world import Simulation

WATCH_MS = 100
LOOK_MS = 250
LOOKS_UNTIL_LIVE = 5
NEWS_MS = (700, 4_000)
"""How long news may be on its way, where nothing fails and where something did: repeated messages, slow channels."""
SLACK_MS = (500, 10_000)
COMMIT_MS = 15_000
STEADY_MS = 5_000
"""Files that were found so long ago tell the time, although others never stop coming."""
TROUBLE_MS = (1_000, 7_000)
FAULT_KINDS = (
    "slot_crash",
    "driver_crash",
    "clock_skew",
    "message_lost",
    "message_repeated",
    "message_delayed",
    "notice_lost",
    "channel_slow",
    "channel_broken",
    "create_fails",
    "storage_slow",
    "stop",
    "savepoint",
    "rescale",
    "reconfigure",
    "look_fails",
    "look_slow",
    "settling_crash",
)
"""Frozen slots and jumping clocks are left out: a process that stands still cannot take back that its log was idle."""
SLOW_KINDS = ("message_lost", "message_repeated", "message_delayed", "channel_slow", "storage_slow")
"""With these, news may be on its way for seconds."""


@dataclass(slots=True)
class _Rest:
    """The input rests: since when, in which attempt, and how far the judge has come."""

    attempt: int
    since_ms: int
    stood: bool = False
    asked: bool = False


class TimedSimulation(Simulation):
    """``TimedSimulation(seed).run()`` is a pure function of the seed."""

    aftermath_ms = 0
    patience_ms = 90_000

    def __init__(
        self, seed: int, *, faults: Faults | None = None, world: TimedWorld | None = None, keep_trace: bool = False
    ) -> None:
        self.timed = world or random_world(seed)
        if faults is None:
            faults = Faults() if self.timed.calm else timed_faults(seed)
        self._calm = faults == Faults()
        self._slow = any(getattr(faults, kind) for kind in SLOW_KINDS)
        manner = Manner(
            bounded=self.timed.bounded,
            idle_timeout_ms=self.timed.idle_timeout_ms,
            drain=self.timed.drain or not self.timed.bounded,
            quick=True,
        )
        super().__init__(seed, faults=faults, query=timed_query(self.timed), manner=manner, keep_trace=keep_trace)
        self._peace_ms = 0 if self._calm else self._agenda.random.randint(*TROUBLE_MS)
        self._rest: _Rest | None = None
        if self.people.has_full_channels:
            self._tally.path("world: full channels")
        for kind in sorted(self.timed.kinds):
            self._tally.path(f"world: {kind}")
        self._agenda.after(WATCH_MS, self._watch)

    @cached_property
    def lateness(self) -> Lateness:
        return Lateness(
            self._setting.chronicle, self.timed.streams, LOOK_MS, self.timed.idle_timeout_ms, SLACK_MS[self._slow]
        )

    # --- while it runs --------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        if self.people.finished_ms is not None or self._gave_up:
            return
        self._agenda.after(WATCH_MS, self._watch)
        driver = next(iter(self.people.living), None)
        if driver is None or driver.gang is None or self.timed.bounded:
            return
        self._watch_standing(driver)
        if self.timed.steady and self._calm:
            self._watch_time_go_on(driver)
        if self._agenda.now_ms >= max(self._peace_ms, self.timed.rests_ms):
            self._watch_rest(driver)

    def _watch_rest(self, driver: SimulatedDriver) -> None:
        """Read to its end, as a checkpoint of the running attempt says; then so many looks; then a commit; then the drain."""
        now_ms = self._agenda.now_ms
        assert driver.gang is not None
        attempt = driver.gang.attempt
        if self._rest is None or self._rest.attempt != attempt:
            self._rest = None
            mine = [ref for ref in self.people.auditor.completed if ref.attempt == attempt]
            if mine and self.query.all_read(rows_read(self.people.auditor.manifest(max(mine)))):
                self._rest = _Rest(attempt, now_ms)
            return
        rest = self._rest
        due_ms = rest.since_ms + LOOKS_UNTIL_LIVE * LOOK_MS + NEWS_MS[not self._calm]
        if self.timed.has_logs:
            due_ms += self.timed.idle_timeout_ms
        if now_ms < due_ms:
            return
        if not rest.stood:
            rest.stood = True
            self._audit_standing(driver, self._reached_us)
        if rest.asked:
            return
        wrong = self._judge(self._reached_us)
        if not wrong or now_ms > due_ms + COMMIT_MS:
            for one in wrong[:3]:
                self._on_damage(f"the input rests since {rest.since_ms} ms: {one}")
            rest.asked = True
            self.people.ask_for_savepoint(driver, ev.Afterwards.DRAIN)

    @property
    def _reached_us(self) -> int:
        """Where event time stands when everything has been read: of streams that meet, the slowest."""
        return min((stream.watermark_us for stream in self.timed.streams), default=WATERMARK_MIN_US)

    def _standing(self, driver: SimulatedDriver) -> list[tuple[str, int]]:
        return [
            (f"{one.operator} of {slot.who}", WATERMARK_MIN_US if one.watermark_us is None else one.watermark_us)
            for slot in driver.slots
            for one in slot.metrics
            if one.operator.partition(" ")[2] in STATEFUL
        ]

    def _audit_standing(self, driver: SimulatedDriver, reached_us: int) -> None:
        for who, at_us in self._standing(driver):
            if at_us < reached_us:
                self._on_damage(f"{who} stands at {at_us}, and all that was read allows {reached_us}")
                return

    def _watch_standing(self, driver: SimulatedDriver) -> None:
        """Never further than all rows together allow."""
        if self.people.drained:
            return
        for who, at_us in self._standing(driver):
            if at_us > self._reached_us:
                self._on_damage(f"{who} stands at {at_us}, and no row allows more than {self._reached_us}")
                return

    def _watch_time_go_on(self, driver: SimulatedDriver) -> None:
        """Files that never stop coming do not stop time."""
        stream = self.timed.streams[0]
        script = stream.scripts[0]
        notes = self._setting.chronicle.of(script.source)
        before_ms = self._agenda.now_ms - STEADY_MS
        old = [script.splits[n].largest_us for n, look in notes.reported.items() if notes.looks[look].at_ms < before_ms]
        known_us = max(old, default=WATERMARK_MIN_US)
        if known_us > WATERMARK_MIN_US:
            self._audit_standing(driver, floored(known_us, stream.delay_us))

    # --- at the end -----------------------------------------------------------------------------------------------

    def _audit(self) -> None:
        if self._gave_up:
            return
        if self.people.finished_ms is None:
            what = "the input rests" if self._rest is not None else "its input has not been read"
            self._setting.violate(f"at {self._agenda.now_ms} ms the query has not finished: {what}")
            return
        closed_us = None if self.timed.drain or not self.timed.bounded else self._reached_us
        for one in self._judge(closed_us)[:5]:
            self._setting.violate(one)
        judge = TimedJudge(self.timed, self.lateness, closed_us)
        self._tally.paths["rows judged in event time"] += len(judge.all_rows)
        self._tally.paths["rows that may be late"] += judge.late

    def _judge(self, closed_us: int | None) -> list[str]:
        found = visible_rows(self.query, self._setting.outside.visible)
        return list(TimedJudge(self.timed, self.lateness, closed_us).violations(found))


def timed_faults(seed: int) -> Faults:
    chance = random.Random(seed ^ 0x71DE)
    share = chance.choice((0.2, 0.4, 0.6))
    strengths = {one.name: one.metadata["highest"] for one in fields(Faults)}
    kinds = FAULT_KINDS if chance.random() < 0.5 else [kind for kind in FAULT_KINDS if kind not in SLOW_KINDS]
    chosen = {kind: chance.random() * strengths[kind] for kind in kinds if chance.random() < share}
    return replace(Faults(), **chosen)
