"""One simulated run: a query, a seed, faults for a while, then peace. The auditors judge what is left."""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from tidegate.checkpoint import effects as fx
from tidegate.checkpoint.layout import ManifestKey, manifest_key, parse
from tidegate.checkpoint.manifest import Manifest, decode
from tidegate.checkpoint.plan import Rules, plan_of
from tidegate.model.config import QueryConfig
from tidegate.model.ids import PipelineId
from tidegate.plan.graph import JobGraph
from tidegate.plan.stages import build_graph
from tidegate.testing.simulation.agenda import Agenda
from tidegate.testing.simulation.driver import SimulatedDriver
from tidegate.testing.simulation.faults import Faults, Tally
from tidegate.testing.simulation.queries import SimulatedQuery, random_query
from tidegate.testing.simulation.setting import Setting, SimulatedConnectors
from tidegate.testing.simulation.sinks import SimulatedOutside
from tidegate.testing.simulation.store import SimulatedStore

PATIENCE_MS = 240_000
"""Once the faults have stopped, the query must finish within this much simulated time."""
AFTERMATH_MS = 25_000
"""How long late writes and zombies may still act after the query has finished."""
STEPS_MAX = 400_000


@dataclass(frozen=True, slots=True)
class Verdict:
    seed: int
    query: str
    violations: tuple[str, ...]
    digest: str
    steps: int
    simulated_ms: int
    tally: Tally
    trace: tuple[str, ...] = ()


def random_faults(seed: int) -> Faults:
    """Each run has some fault kinds, in some strength: a run with all of them would never get anywhere."""
    chance = Agenda(seed ^ 0x5EED).random

    def maybe(high: float) -> float:
        return chance.random() * high if chance.random() < 0.5 else 0.0

    return Faults(
        slot_crash=maybe(0.4),
        driver_crash=maybe(0.2),
        driver_freeze=maybe(0.15),
        slot_freeze=maybe(0.2),
        second_driver=maybe(0.1),
        create_fails=maybe(0.15),
        create_answer_lost=maybe(0.15),
        create_lands_late=maybe(0.15),
        read_fails=maybe(0.1),
        delete_fails=maybe(0.2),
        commit_fails=maybe(0.2),
        commit_answer_lost=maybe(0.2),
        commit_partly=maybe(0.2),
        message_repeated=maybe(0.1),
        message_delayed=maybe(0.1),
        notice_lost=maybe(0.3),
        request=maybe(0.5),
        rescale=maybe(0.8),
    )


class Simulation:
    """``Simulation(seed).run()`` is a pure function of the seed."""

    def __init__(
        self,
        seed: int,
        *,
        faults: Faults | None = None,
        query: SimulatedQuery | None = None,
        rules: Rules | None = None,
        keep_trace: bool = False,
    ) -> None:
        self._seed = seed
        self._agenda = Agenda(seed, keep_trace=keep_trace)
        self._tally = Tally()
        self._faults = random_faults(seed) if faults is None else faults
        self._query = random_query(self._agenda.random) if query is None else query
        self._rules = Rules() if rules is None else rules
        store = SimulatedStore(self._agenda, self._faults, self._tally)
        outside = SimulatedOutside(self._agenda, self._faults, self._tally)
        self._setting = Setting(
            self._agenda,
            self._faults,
            self._tally,
            store,
            outside,
            SimulatedConnectors(outside),
            QueryConfig(
                max_parallelism=16,
                checkpoint_interval_ms=self._agenda.random.choice((300, 1_000)),
                checkpoint_timeout_ms=4_000,
                checkpoints_retained=self._agenda.random.choice((1, 2, 3)),
                cleanup_timeout_ms=500,
                bounded=True,
                drain=True,
                batch_rows_max=self._agenda.random.choice((1, 7, 50)),
                channel_batches_max=self._agenda.random.choice((1, 2, 8)),
                restart_delay_max_ms=3_000,
                restart_attempts_max=1_000,
            ),
        )
        self._parallelism = self._agenda.random.randint(1, 3)
        self._trouble_until_ms = self._agenda.random.randint(5_000, 40_000)
        self._drivers: list[SimulatedDriver] = []
        self._starts = 0
        self._finished_ms: int | None = None
        self._gave_up = False

    def run(self) -> Verdict:
        self._start()
        self._agenda.after(1_000, self._every_second)
        while self._agenda.steps < STEPS_MAX and self._agenda.run_next():
            if self._finished_ms is not None and self._agenda.now_ms > self._finished_ms + AFTERMATH_MS:
                break
            if self._gave_up or self._agenda.now_ms > self._trouble_until_ms + PATIENCE_MS:
                break
        self._audit()
        return Verdict(
            self._seed,
            self._query.name,
            (*self._setting.violations, *self._setting.outside.violations),
            self._agenda.digest,
            self._agenda.steps,
            self._agenda.now_ms,
            self._tally,
            self._agenda.trace,
        )

    # --- people -------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._finished_ms is not None:
            return
        self._starts += 1
        graph = self._graph()
        plan = replace(plan_of(graph, PipelineId("simulated"), self._setting.config), rules=self._rules)
        driver = SimulatedDriver(self._setting, f"driver {self._starts}", graph, plan, self._on_finish)
        self._drivers.append(driver)

    def _graph(self) -> JobGraph:
        if self._starts > 1 and self._agenda.chance(self._setting.faults.rescale):
            self._tally.fault("rescale")
            self._parallelism = self._agenda.random.randint(1, 3)
        return build_graph(self._query.plan, parallelism=self._parallelism, max_parallelism=16)

    def _on_finish(self, driver: SimulatedDriver, outcome: fx.Outcome) -> None:
        match outcome:
            case fx.Finished():
                self._finished_ms = self._agenda.now_ms
            case fx.Failed(failure) if not failure.retryable or failure.code == "CORRUPT_SNAPSHOT":
                self._setting.violate(f"{driver.name} gave up: {failure.code} {failure.message}")
                self._gave_up = True
            case fx.Failed() | fx.Fenced() | fx.Stopped():
                self._agenda.soon(200, 2_000, self._start_if_alone)

    def _start_if_alone(self) -> None:
        if not any(driver.alive for driver in self._drivers):
            self._start()

    # --- trouble --------------------------------------------------------------------------------------------------

    def _every_second(self) -> None:
        if self._finished_ms is not None:
            return
        if self._agenda.now_ms >= self._trouble_until_ms:
            peace = Faults()
            self._setting.faults = self._setting.store.faults = self._setting.outside.faults = peace
        self._agenda.after(1_000, self._every_second)
        self._start_if_alone()
        for driver in [one for one in self._drivers if one.alive]:
            self._trouble(driver)

    def _trouble(self, driver: SimulatedDriver) -> None:
        agenda, faults, tally = self._agenda, self._setting.faults, self._tally
        running = [slot for slot in driver.slots if slot.alive]
        if running and agenda.chance(faults.slot_crash):
            tally.fault("slot_crash")
            victim = agenda.random.choice(running)
            agenda.soon(0, 999, lambda: self._kill_slot(driver, victim))
        if running and agenda.chance(faults.slot_freeze):
            tally.fault("slot_freeze")
            victim, duration_ms = agenda.random.choice(running), agenda.random.randint(500, 15_000)
            victim.freeze(duration_ms)
            driver.slot_silent(victim, duration_ms)
        if agenda.chance(faults.driver_crash):
            tally.fault("driver_crash")
            agenda.soon(0, 999, lambda: self._kill_driver(driver))
        if agenda.chance(faults.driver_freeze):
            tally.fault("driver_freeze")
            driver.freeze(agenda.random.randint(500, 12_000))
            agenda.soon(500, 3_000, self._start)
        if agenda.chance(faults.second_driver):
            tally.fault("second_driver")
            agenda.soon(0, 999, self._start)
        if agenda.chance(faults.request):
            tally.fault("request")
            driver.request_checkpoint(f"{driver.name} {agenda.now_ms}")

    def _kill_slot(self, driver: SimulatedDriver, slot) -> None:
        if slot.alive:
            slot.kill("kill -9")
            driver.slot_died(slot)

    def _kill_driver(self, driver: SimulatedDriver) -> None:
        if driver.alive:
            driver.crash()
            self._agenda.soon(200, 3_000, self._start_if_alone)

    # --- auditors -------------------------------------------------------------------------------------------------

    def _audit(self) -> None:
        if self._gave_up:
            return
        if self._finished_ms is None:
            self._setting.violate(
                f"the faults stopped at {self._trouble_until_ms} ms, but at {self._agenda.now_ms} ms the query has not finished"
            )
            return
        self._audit_output()
        self._audit_storage()

    def _audit_output(self) -> None:
        visible = self._setting.outside.visible
        pieces = [
            visible[transaction] for transaction in sorted(visible, key=lambda t: (t.checkpoint, t.attempt, t.subtask))
        ]
        found = pl.concat(pieces) if pieces else self._query.answer.clear()
        if self._query.keys:
            found = found.group_by(self._query.keys, maintain_order=True).last()
        columns = self._query.answer.columns
        expected, found = (frame.select(columns).sort(columns) for frame in (self._query.answer, found))
        if not found.equals(expected):
            counted = [frame.group_by(columns).len() for frame in (expected, found)]
            missing = counted[0].join(counted[1], on=[*columns, "len"], how="anti")
            extra = counted[1].join(counted[0], on=[*columns, "len"], how="anti")
            self._setting.violate(
                f"output differs: expected {expected.height} rows, found {found.height}; "
                f"missing or short {missing.head(3).rows()}, extra {extra.head(3).rows()}"
            )

    def _audit_storage(self) -> None:
        """The newest checkpoint of the lineage can be restored: every chunk it names is there."""
        objects = self._setting.store.objects
        refs = sorted(key.ref for name in objects if isinstance(key := parse(name), ManifestKey))
        if not refs:
            self._setting.violate("the query finished without a manifest")
            return
        newest = decode(Manifest, manifest_key(refs[-1]), objects[manifest_key(refs[-1])])
        for key in sorted(newest.chunk_keys() - objects.keys()):
            self._setting.violate(f"{key} is named by checkpoint {newest.ref} and was deleted")
