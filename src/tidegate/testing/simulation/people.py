"""What people do to a query: start it, start it again, ask for checkpoints and savepoints, stop it, move it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from tidegate.checkpoint import effects as fx
from tidegate.checkpoint import events as ev
from tidegate.checkpoint.importing import find, perform_import
from tidegate.checkpoint.plan import Rules, plan_of
from tidegate.model.config import QueryConfig
from tidegate.model.errors import CorruptSnapshot, InvalidQuery, Unavailable
from tidegate.ports.store import BlobStore
from tidegate.testing.simulation.auditors import LocationAuditor
from tidegate.testing.simulation.driver import SimulatedDriver, Start
from tidegate.testing.simulation.location import FIRST, Location, location_number
from tidegate.testing.simulation.manner import Manner, random_config
from tidegate.testing.simulation.misplacing import SETTLED_MS, Loss, Misplacing
from tidegate.testing.simulation.query import LETTERS_PLACE, SimulatedQuery
from tidegate.testing.simulation.setting import Setting
from tidegate.testing.simulation.store import SimulatedStore
from tidegate.testing.simulation.traits import PASSED, UNCHANGED, random_change

DAMAGE = frozenset({"BUG", "CORRUPT_SNAPSHOT", "INVALID_QUERY", "DATA_ERROR"})
"""Nothing in this world justifies one of these."""


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
        family: str = FIRST,
    ) -> None:
        self._setting = setting
        self._agenda = setting.agenda
        self.query = query
        self.family = family
        self._change = UNCHANGED
        self._manner = manner
        self._rules = rules
        self._on_damage = on_damage
        self._parallelism = self._agenda.random.randint(1, 3)
        self._config = self._random_config()
        self._starts = 0
        self._wishes: dict[str, _Wish] = {}
        self.savepoints: dict[str, SimulatedStore] = {}
        self.drivers: list[SimulatedDriver] = []
        self.location = location_number(1, setting.store(), family)
        self.auditors = [LocationAuditor(setting, self.location)]
        self.finished_ms: int | None = None
        self._moving = False
        self.misplacing = Misplacing(setting)
        self._loses = False
        """Something is being lost: nobody starts before it is."""
        self._falls_back = False
        """The next start accepts that rows come twice."""
        self.repeats = False
        """Somebody has accepted that."""
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
        graph = self.query.changed(self._change).graph(self._parallelism)
        plan = replace(plan_of(graph, self.location.pipeline, self._config), rules=self._rules)
        falls_back, self._falls_back = self._falls_back, False
        name = f"{'driver' if self.family == FIRST else self.family} {self._starts}"
        changed = self._change != UNCHANGED
        start = Start(name, self.location, graph, plan, self._open_savepoint, falls_back, changed)
        self.misplacing.copy_soon(self.location)
        self.drivers.append(SimulatedDriver(self._setting, start, self.auditor, self._on_finish))

    def start_if_alone(self) -> None:
        if self.living or self._moving or self._loses:
            return
        loss = self.misplacing.next_loss(self.location) if self.finished_ms is None else None
        if loss is None:
            self.start()
        else:
            self._loses = True
            self._agenda.after(SETTLED_MS, lambda: self._lose(loss))

    def _lose(self, what: Loss) -> None:
        self._loses = False
        if self.living or self._moving or self.finished_ms is not None:
            return
        if self.misplacing.lose(what, self.location, next(iter(self.auditor.lineage()), None)):
            self.move_to(self.location)
        self.start()

    def _on_refusal(self) -> None:
        """The location has lost something, and a start says so."""
        self._setting.tally.path(f"refused: {self.misplacing.loss.value} is missing")
        if self._agenda.chance(0.5):
            self._setting.tally.path("refused: missing files were brought back")
            self.misplacing.bring_back()
            self.move_to(self.location)
        else:
            self._setting.tally.path("refused: went on although rows come twice")
            self._falls_back = self.repeats = True
        self._agenda.soon(200, 2_000, self.start_if_alone)

    def _change_settings(self) -> None:
        faults, tally = self._setting.faults, self._setting.tally
        if self._agenda.chance(faults.rescale):
            tally.fault("rescale")
            self._parallelism = self._agenda.random.randint(1, 3)
        if self._agenda.chance(faults.reconfigure):
            tally.fault("reconfigure")
            self._config = self._random_config()
        if faults.change_query and self.query.recipe is not None and self._agenda.chance(faults.change_query):
            tally.fault("change_query")
            self._change = random_change(self._agenda.random, self._change)
            self._agenda.note("people", f"change the query: {self._change}")

    def _random_config(self) -> QueryConfig:
        config = random_config(self._manner, self._agenda.random)
        if self.query.refused is None:
            return config
        return msgspec.structs.replace(config, dead_letter=LETTERS_PLACE)

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
            case fx.Failed(failure) if failure.code == CorruptSnapshot.code and self.misplacing.excuses(self.location):
                self._on_refusal()
            case fx.Failed(failure) if failure.code == InvalidQuery.code and self._is_of_a_change(driver):
                self._change_back(failure)
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

    def _is_of_a_change(self, driver: SimulatedDriver) -> bool:
        """Whether the query of that start has another stateful operator than the newest checkpoint."""
        return (PASSED in driver.start.plan.stateful) is not self._newest_has_passed()

    def _newest_has_passed(self) -> bool:
        lineage = self.auditor.lineage()
        return bool(lineage) and PASSED in self.auditor.manifest(lineage[0]).stateful

    def _change_back(self, failure: ev.Failure) -> None:
        """The state does not fit, or rows are on their way to an operator that has moved: the query runs as it was."""
        state_would_go = PASSED in failure.message
        self._setting.tally.path(
            f"changed query refused: {'state would go' if state_would_go else 'rows are on their way'}"
        )
        self._change = replace(self._change, passed=self._newest_has_passed())
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
        place = location_number(len(self.auditors) + 1, store, self.family)
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
