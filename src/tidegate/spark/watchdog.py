"""Keeps an eye on one pipeline: what was seen of it, how it does, and whether its sources are far behind."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace

from tidegate.checkpoint.effects import Effect
from tidegate.checkpoint.events import BacklogSeen, ClockTicked, Event
from tidegate.checkpoint.phases import Active, State
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.model.messages import SlotAlive, SlotProgress
from tidegate.spark import vitals
from tidegate.spark.backlog import BacklogWatch
from tidegate.spark.health import Condition, Health, health
from tidegate.spark.holding import Hold

log = logging.getLogger("tidegate.health")

HEALTH_INTERVAL_MS = 1_000
REMINDER_MS = 60_000
"""How often a query that stays unhealthy says so again, and why by now."""


class Watchdog:
    """``health`` may be asked by any thread, heartbeats come from another one; all else belongs to the job master's loop."""

    def __init__(self, plan: CheckpointPlan, name: str, now_ms: int) -> None:
        self._plan = plan
        self._name = name
        self._lock = threading.Lock()
        self._vitals = vitals.Vitals(now_ms)
        self._backlog = BacklogWatch()
        self._judged_ms = now_ms
        self._condition = Condition.HEALTHY
        self._said_ms = now_ms

    def health(self, now_ms: int) -> Health:
        return health(self._vitals, self._plan, now_ms)

    def on_event(self, event: Event) -> None:
        if not isinstance(event, ClockTicked):
            with self._lock:
                self._vitals = vitals.after_event(self._vitals, event)

    def on_step(self, state: State, effects: tuple[Effect, ...], now_ms: int) -> None:
        """``state``: the coordinator's, after the step that asked for ``effects``."""
        with self._lock:
            for effect in effects:
                self._vitals = vitals.after_effect(self._vitals, effect, now_ms)
            self._vitals = vitals.after_step(self._vitals, state)

    def on_progress(self, progress: SlotProgress, now_ms: int) -> None:
        with self._lock:
            self._vitals = vitals.after_progress(self._vitals, progress, now_ms)

    def on_alive(self, alive: SlotAlive, now_ms: int) -> None:
        with self._lock:
            self._vitals = vitals.after_heartbeat(self._vitals, alive, now_ms)

    def on_holds(self, holds: tuple[Hold, ...]) -> None:
        """Who holds event time back right now."""
        if holds is not self._vitals.holds:
            with self._lock:
                self._vitals = replace(self._vitals, holds=holds)

    def on_clock(self, now_ms: int, state: State, registered: int) -> BacklogSeen | None:
        """``registered``: slots of the attempt that have come up. Returns what the coordinator must learn, if anything."""
        if self._vitals.registered != registered:
            with self._lock:
                self._vitals = replace(self._vitals, registered=registered)
        if now_ms >= self._judged_ms + HEALTH_INTERVAL_MS:
            self._judged_ms = now_ms
            self._say(self.health(now_ms), now_ms)
        match state:
            case Active(run=run):
                return self._backlog.look(run.attempt, run.sources, self._plan, now_ms)
            case _:
                return None

    def _say(self, found: Health, now_ms: int) -> None:
        """Into the log, when it changed or stays bad."""
        bad = found.condition is Condition.UNHEALTHY
        if found.condition is self._condition and not (bad and now_ms >= self._said_ms + REMINDER_MS):
            return
        self._condition, self._said_ms = found.condition, now_ms
        why = f": {found.reason}" if found.reason else ""
        log.log(logging.WARNING if bad else logging.INFO, "%s is %s%s", self._name, found.condition.value, why)
