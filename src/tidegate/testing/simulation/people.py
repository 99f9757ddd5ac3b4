"""What people do to a query: start it, start it again, ask for checkpoints and savepoints, stop it, move it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from tidegate.checkpoint import effects as fx
from tidegate.checkpoint import events as ev
from tidegate.checkpoint.importing import find, perform_import
from tidegate.checkpoint.plan import Rules, plan_of
from tidegate.checkpoint.ports import BlobStore
from tidegate.model.config import CheckpointMode, QueryConfig, RestartStrategy
from tidegate.model.errors import Unavailable
from tidegate.testing.simulation.auditors import LocationAuditor
from tidegate.testing.simulation.driver import SimulatedDriver, Start
from tidegate.testing.simulation.judging import Promise
from tidegate.testing.simulation.location import Location, location_number
from tidegate.testing.simulation.query import MAX_PARALLELISM, SimulatedQuery
from tidegate.testing.simulation.setting import Setting
from tidegate.testing.simulation.store import SimulatedStore

DAMAGE = frozenset({"BUG", "CORRUPT_SNAPSHOT", "INVALID_QUERY", "DATA_ERROR"})
"""Nothing in this world justifies one of these."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How the input of a run behaves, and what may be promised about its output."""

    promise: Promise = Promise.EXACTLY_ONCE
    bounded: bool = True
    idle_timeout_ms: int = 3_600_000
    pauses: bool = False
    """Sources fall silent and come back."""
    drain: bool = True
    """In a bounded run: all windows close at its end."""
    quick: bool = False
    """Checkpoints come often, batches are small, channels full: for short runs."""


@dataclass(frozen=True, slots=True)
class _Wish:
    """A savepoint somebody asked for."""

    target: str
    afterwards: ev.Afterwards


class People:
    """``location`` is where the query lives now; its output, wherever it lived, is judged as one."""

    def __init__(
        self,
        setting: Setting,
        query: SimulatedQuery,
        manner: Manner,
        rules: Rules,
        on_damage: Callable[[str], None],
    ) -> None:
        self._setting = setting
        self._agenda = setting.agenda
        self._query = query
        self._manner = manner
        self._rules = rules
        self._on_damage = on_damage
        self._parallelism = self._agenda.random.randint(1, 3)
        self._config = self._random_config()
        self._starts = 0
        self._wishes: dict[str, _Wish] = {}
        self.savepoints: dict[str, SimulatedStore] = {}
        self.drivers: list[SimulatedDriver] = []
        self.location = location_number(1, setting.store())
        self.auditors = [LocationAuditor(setting, self.location)]
        self.finished_ms: int | None = None
        self._moving = False
        self.drained = False
        """Somebody asked for the end before the end of the input."""

    @property
    def has_full_channels(self) -> bool:
        """One batch fills a channel: whoever writes waits for credit most of the time."""
        return self._config.channel_batches_max == 1

    @property
    def auditor(self) -> LocationAuditor:
        """Of the place where the query lives now."""
        return self.auditors[-1]

    @property
    def living(self) -> list[SimulatedDriver]:
        return [driver for driver in self.drivers if driver.alive]

    # --- starts ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        if self.finished_ms is not None:
            return
        self._starts += 1
        if self._starts > 1:
            self._change_settings()
        graph = self._query.graph(self._parallelism)
        plan = replace(plan_of(graph, self.location.pipeline, self._config), rules=self._rules)
        start = Start(f"driver {self._starts}", self.location, graph, plan, self._open_savepoint)
        self.drivers.append(SimulatedDriver(self._setting, start, self.auditor, self._on_finish))

    def start_if_alone(self) -> None:
        if not self.living and not self._moving:
            self.start()

    def _change_settings(self) -> None:
        faults, tally = self._setting.faults, self._setting.tally
        if self._agenda.chance(faults.rescale):
            tally.fault("rescale")
            self._parallelism = self._agenda.random.randint(1, 3)
        if self._agenda.chance(faults.reconfigure):
            tally.fault("reconfigure")
            self._config = self._random_config()

    def _random_config(self) -> QueryConfig:
        config = self._any_config()
        if not self._manner.quick:
            return config
        pick = self._agenda.random.choice
        return msgspec.structs.replace(
            config,
            checkpoint_interval_ms=pick((100, 300)),
            checkpoint_timeout_ms=2_000,
            backlog_checkpoint_interval_ms=0,
            message_repeat_ms=300,
            batch_rows_max=pick((1, 1, 2, 4, 12)),
            channel_batches_max=pick((1, 1, 2)),
            restart_delay_max_ms=300,
            restart_strategy=RestartStrategy.EXPONENTIAL,
            restart_attempts_max=1_000,
        )

    def _any_config(self) -> QueryConfig:
        pick = self._agenda.random.choice
        # A pause is counted from the end of a checkpoint, so it goes with one at a time only.
        concurrent, pause_ms = pick(((1, 0), (1, 400), (2, 0), (3, 0)))
        at_least_once = self._manner.promise is Promise.AT_LEAST_ONCE
        return QueryConfig(
            max_parallelism=MAX_PARALLELISM,
            checkpoint_mode=CheckpointMode.AT_LEAST_ONCE if at_least_once else CheckpointMode.EXACTLY_ONCE,
            checkpoint_interval_ms=pick((300, 1_000)),
            backlog_checkpoint_interval_ms=pick((0, 2_000)),
            checkpoint_min_pause_ms=pause_ms,
            checkpoints_concurrent_max=concurrent,
            aligned_timeout_ms=pick((0, 50, 50, 500)),
            checkpoint_timeout_ms=4_000,
            checkpoint_failures_tolerated=pick((0, 2, 5)),
            checkpoints_retained=pick((1, 2, 3)),
            cleanup_timeout_ms=500,
            bounded=self._manner.bounded,
            drain=self._manner.drain,
            discovery_interval_ms=250,
            idle_timeout_ms=self._manner.idle_timeout_ms,
            message_repeat_ms=pick((300, 1_000)),
            batch_rows_max=pick((4, 12, 50)),
            capture_rows=pick((1, 3, 1_000)),
            channel_batches_max=pick((1, 2, 8)),
            restart_strategy=pick((*RestartStrategy, RestartStrategy.EXPONENTIAL)),
            restart_failures_max=3,
            restart_failure_window_ms=20_000,
            restart_delay_max_ms=3_000,
            restart_attempts_max=pick((3, 1_000)),
        )

    # --- wishes ---------------------------------------------------------------------------------------------------

    def ask_for_checkpoint(self, driver: SimulatedDriver) -> None:
        token = f"{driver.name} {self._agenda.now_ms}"
        driver.say(lambda now_ms: ev.CheckpointRequested(now_ms, token))

    def stop(self, driver: SimulatedDriver) -> None:
        driver.say(ev.StopRequested)

    def ask_for_savepoint(self, driver: SimulatedDriver, afterwards: ev.Afterwards | None = None) -> None:
        token = target = f"savepoint {len(self._wishes) + 1}"
        run_on, suspend, drain = ev.Afterwards.RUN_ON, ev.Afterwards.SUSPEND, ev.Afterwards.DRAIN
        if afterwards is None:
            # A short run is judged by all of its input: nobody ends it in the middle.
            ends = () if self._manner.quick else (drain,)
            afterwards = self._agenda.random.choice((run_on, run_on, suspend, suspend, suspend, *ends))
        self._wishes[token] = _Wish(target, afterwards)
        self.drained |= afterwards is drain
        self._agenda.note("people", f"ask for {target}, then {afterwards.value}")
        driver.say(lambda now_ms: ev.SavepointRequested(now_ms, token, target, afterwards))

    def _open_savepoint(self, target: str) -> BlobStore:
        if target not in self.savepoints:
            self.savepoints[target] = self._setting.store()
        return self.savepoints[target]

    # --- ends -----------------------------------------------------------------------------------------------------

    def _on_finish(self, driver: SimulatedDriver, outcome: fx.Outcome) -> None:
        savepoint = self._savepoint_of(driver)
        match outcome:
            case fx.Finished():
                self._finish()
            case fx.Failed(failure) if failure.code in DAMAGE and self.auditor.owner == driver.name:
                self._on_damage(f"{driver.name} gave up: {failure.code} {failure.message}")
            case fx.Stopped() if savepoint is not None and savepoint.afterwards is ev.Afterwards.DRAIN:
                self._finish()
            case fx.Stopped() if savepoint is not None and self._may_move(driver):
                self._moving = True
                self._agenda.soon(200, 2_000, lambda: self._move(savepoint))
            case fx.Failed() | fx.Fenced() | fx.Stopped():
                if isinstance(outcome, fx.Failed):
                    self._setting.tally.path(f"given up, started again: {outcome.failure.code}")
                self._agenda.soon(200, 2_000, self.start_if_alone)

    def _finish(self) -> None:
        self.finished_ms = self._agenda.now_ms
        if self.drained:
            # All windows are closed: whoever went on from here would find the rest of the input late.
            for driver in self.living:
                driver.crash()

    def _savepoint_of(self, driver: SimulatedDriver) -> _Wish | None:
        """The savepoint this driver ended with, if it did."""
        for token, answer in driver.answers.items():
            wish = self._wishes.get(token)
            if wish is not None and isinstance(answer, fx.RequestDone):
                self._setting.tally.path(f"savepoint taken, then {wish.afterwards.value}")
                if wish.afterwards is not ev.Afterwards.RUN_ON:
                    return wish
        return None

    def _may_move(self, driver: SimulatedDriver) -> bool:
        """Nobody starts a copy while the original may still run."""
        return not self.living and driver.start.location is self.location and self._agenda.chance(0.6)

    def _move(self, savepoint: _Wish) -> None:
        """A start at a new place, from a savepoint. Repeated until the copy stands."""
        if self.living or self.finished_ms is not None:
            self._moving = False
            return
        store = self._setting.store()
        place = location_number(len(self.auditors) + 1, store)
        try:
            found = find(savepoint.target, self._open_savepoint)
            perform_import(found, store, place.pipeline, place.pipeline)
        except Unavailable as error:
            self._agenda.note("people", f"the import fails: {error.message}")
            self._agenda.soon(200, 2_000, lambda: self._move(savepoint))
            return
        self._setting.tally.path("started from a savepoint at a new location")
        self._moving = False
        self.move_to(place)
        self.start()

    def move_to(self, place: Location) -> None:
        self.location = place
        self.auditors.append(LocationAuditor(self._setting, place))
