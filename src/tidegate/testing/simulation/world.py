"""One simulated run: a query, a seed, faults for a while, then peace. The auditors judge what is left."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import polars as pl

from tidegate.checkpoint.manifest import Manifest
from tidegate.checkpoint.plan import Rules
from tidegate.model.elements import CheckpointKind
from tidegate.testing.simulation.agenda import Agenda
from tidegate.testing.simulation.auditors import Cut
from tidegate.testing.simulation.faults import Faults, Tally, random_faults
from tidegate.testing.simulation.judging import Promise, judge, judge_all, visible_rows
from tidegate.testing.simulation.location import SECOND, location_number
from tidegate.testing.simulation.manner import Manner
from tidegate.testing.simulation.order import disorder
from tidegate.testing.simulation.people import People
from tidegate.testing.simulation.positions import rows_read
from tidegate.testing.simulation.query import SimulatedQuery
from tidegate.testing.simulation.random_queries import random_query
from tidegate.testing.simulation.setting import setting_of
from tidegate.testing.simulation.sinks import SimulatedOutside, Transaction
from tidegate.testing.simulation.traits import Traits, random_traits
from tidegate.testing.simulation.trouble import Trouble

TROUBLE_MS = (4_000, 25_000)
RECOVERY_MS = 60_000
"""Once the faults have stopped, a checkpoint must complete within this much simulated time."""
PATIENCE_MS = 240_000
"""… and the query must finish within this much."""
AFTERMATH_MS = 20_000
"""How long late writes and zombies may still act after the query has finished."""
LEFTOVERS_MAX = 20
"""Objects that nobody needs and that are still there at the end: what landed late, what could not be deleted at once; and one for each
entry of the newest manifest, because no cleanup follows the last checkpoint."""
STEPS_MAX = 400_000
SECOND_QUERY = 0x5EC0
"""Makes of a seed another one: for the second query of a job."""


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


@dataclass(frozen=True, slots=True)
class Inheritance:
    """What a run finds when it begins: objects in the location, and output that is visible already."""

    objects: dict[str, bytes]
    visible: dict[Transaction, pl.DataFrame]
    prepared: dict[Transaction, pl.DataFrame]
    place: int = 1
    """Number of the location."""


class Simulation:
    """``Simulation(seed).run()`` is a pure function of the seed."""

    aftermath_ms = AFTERMATH_MS
    patience_ms = PATIENCE_MS

    def __init__(
        self,
        seed: int,
        *,
        faults: Faults | None = None,
        query: SimulatedQuery | None = None,
        manner: Manner | None = None,
        traits: Traits | None = None,
        rules: Rules | None = None,
        inheritance: Inheritance | None = None,
        keep_trace: bool = False,
    ) -> None:
        self._seed = seed
        self._agenda = agenda = Agenda(seed, keep_trace=keep_trace)
        self._tally = Tally()
        if query is not None:
            traits = Traits()
        elif traits is None:
            traits = random_traits(seed)
        crowd = Manner(bounded=False) if traits.crowded else None
        self.manner = manner or crowd or _random_manner(random.Random(seed ^ 0xA11CE))
        if traits.crowded:
            self.manner = replace(self.manner, crowded=True)
        self.query = query or _query_of(seed, self.manner, traits)
        self._setting = setting_of(agenda, random_faults(seed) if faults is None else faults, self._tally)
        self.people = People(self._setting, self.query, self.manner, rules or Rules(), self._on_damage)
        self.everybody = [self.people]
        """One group of people per pipeline of the job."""
        if traits.two_pipelines:
            other = _query_of(seed + SECOND_QUERY, self.manner, Traits())
            self.everybody.append(People(self._setting, other, self.manner, rules or Rules(), self._on_damage, SECOND))
        self._trouble = Trouble(self._setting, self.everybody)
        self._peace_ms = agenda.random.randint(*TROUBLE_MS)
        self._gave_up = False
        self._inherited = inheritance
        if inheritance is not None:
            self._inherit(inheritance)

    def _inherit(self, inheritance: Inheritance) -> None:
        """Peace from the beginning, and all input at once."""
        if inheritance.place > 1:
            self.people.move_to(location_number(inheritance.place, self._setting.store()))
        for key, data in inheritance.objects.items():
            self.people.location.store.put(key, data)
        self._setting.outside.visible.update(inheritance.visible)
        self._setting.outside.prepared.update(inheritance.prepared)
        self._setting.hurry = True
        self._peace_ms = 0

    def run(self) -> Verdict:
        for people in self.everybody:
            people.start()
        self._agenda.after(1_000, self._every_second)
        while not self._over and self._agenda.run_next():
            pass
        self._audit()
        for wrong in disorder(self._setting.outside)[:3]:
            self._setting.violate(wrong)
        return self.verdict

    @property
    def verdict(self) -> Verdict:
        """As far as the run has come."""
        return Verdict(
            self._seed,
            self.query.name,
            (*self._setting.violations, *self._setting.outside.violations),
            self._agenda.digest,
            self._agenda.steps,
            self._agenda.now_ms,
            self._tally,
            self._agenda.trace,
        )

    @property
    def outside(self) -> SimulatedOutside:
        return self._setting.outside

    @property
    def cuts(self) -> list[Cut]:
        """Every completed checkpoint of the first location, in order."""
        return list(self.people.auditors[0].completed.values())

    @property
    def _over(self) -> bool:
        now_ms, finished_ms = self._agenda.now_ms, self._finished_ms
        if finished_ms is not None:
            return now_ms > finished_ms + (self.aftermath_ms if self._inherited is None else 0)
        return self._gave_up or self._agenda.steps >= STEPS_MAX or now_ms > self._peace_ms + self.patience_ms

    @property
    def _finished_ms(self) -> int | None:
        """When the last of the job's pipelines had finished."""
        last_ms = 0
        for people in self.everybody:
            if people.finished_ms is None:
                return None
            last_ms = max(last_ms, people.finished_ms)
        return last_ms

    def _on_damage(self, what: str) -> None:
        self._setting.violate(what)
        self._gave_up = True

    def _every_second(self) -> None:
        if self._finished_ms is not None:
            return
        self._agenda.after(1_000, self._every_second)
        if self._agenda.now_ms >= self._peace_ms:
            self._setting.make_peace()
            self._watch_recovery()
        self._trouble.every_second()

    def _watch_recovery(self) -> None:
        """Liveness: checkpoints complete again. Once one has, the rest of the input comes at once: nothing new would be seen."""
        last_ms = [people.auditor.last_completed_ms for people in self.everybody if people.finished_ms is None]
        if all(one is not None and one > self._peace_ms for one in last_ms):
            self._setting.hurry = True
        elif self._agenda.now_ms > self._peace_ms + RECOVERY_MS and not self._gave_up:
            self._on_damage(
                f"the faults stopped at {self._peace_ms} ms, and no checkpoint completed in {RECOVERY_MS} ms"
            )

    # --- auditors -------------------------------------------------------------------------------------------------

    def _audit(self) -> None:
        if self._gave_up:
            return
        for people in self.everybody:
            self._audit_pipeline(people)
        if len(self.everybody) > 1:
            self._tally.path("judged: two pipelines of one job")

    def _audit_pipeline(self, people: People) -> None:
        if people.finished_ms is None:
            self._setting.violate(
                f"the faults stopped at {self._peace_ms} ms, but at {self._agenda.now_ms} ms the query has not finished"
            )
            return
        lineage = people.auditor.lineage()
        if not lineage:
            self._setting.violate("the query finished without a manifest")
            return
        newest = people.auditor.manifest(lineage[0])
        self._audit_output(people, newest)
        leftovers = people.auditor.leftovers()
        if leftovers > LEFTOVERS_MAX + len(newest.operators):
            self._setting.violate(f"{leftovers} objects are in the location that no retained checkpoint needs")
        for key in sorted(newest.chunk_keys() - people.location.store.objects.keys()):
            self._setting.violate(f"{key} is named by checkpoint {newest.ref} and was deleted")

    def _audit_output(self, people: People, newest: Manifest) -> None:
        read, visible = rows_read(newest), self._setting.outside.visible
        if not people.drained and not people.query.all_read(read):
            self._setting.violate(f"the query finished and has not read everything: {read}")
        query = people.query.of(read) if people.drained else people.query
        late = self._went_on_after_drain(people, newest)

        def promise_of(result: SimulatedQuery) -> Promise | None:
            promise = self.manner.promise
            if promise is not Promise.EXACTLY_ONCE:
                return promise
            if result.windowed and late:
                # Rows that may be missing and may come twice: then there is nothing left to promise.
                return None if people.repeats else Promise.LATE_ROWS_DROPPED
            return Promise.REPEATS if people.repeats else promise

        if late and query.windowed:
            self._tally.path("went on from a drained checkpoint")
        if people.repeats:
            self._tally.path("judged: rows of lost checkpoints come twice")
        for wrong in judge_all(query, visible, people.family, promise_of):
            self._setting.violate(wrong)
        self._tally.path(f"judged: {self.manner.promise.name.lower().replace('_', ' ')}")
        for kind in query.kinds:
            self._tally.path(f"judged: {kind}")
        if self.manner.promise is Promise.AT_LEAST_ONCE:
            found = visible_rows(query, visible, people.family)
            if judge(query, query.answer, found, Promise.EXACTLY_ONCE):
                self._tally.path("rows counted twice, as at-least-once allows")

    @staticmethod
    def _went_on_after_drain(people: People, newest: Manifest) -> bool:
        """A driver died before it could say that all is drained, and somebody started again: what is read then is late."""
        stored = [manifest for auditor in people.auditors for manifest in auditor.manifests]
        return people.drained and any(
            one.kind is CheckpointKind.FINAL and (one.pipeline, one.ref) != (newest.pipeline, newest.ref)
            for one in stored
        )


def _random_manner(chance: random.Random) -> Manner:
    match chance.randint(0, 9):
        case 0:
            return Manner(Promise.AT_LEAST_ONCE)
        case 1 | 2:
            return Manner(bounded=False)
        case 3:
            # Whole splits: no row is late because its source was silent for longer than that.
            return Manner(bounded=False, idle_timeout_ms=chance.choice((500, 2_000)), pauses=True)
        case _:
            return Manner()


def _query_of(seed: int, manner: Manner, traits: Traits) -> SimulatedQuery:
    arrivals = not manner.bounded and not manner.pauses
    return random_query(seed ^ 0xC0FFEE, arrivals=arrivals, pauses=manner.pauses, traits=traits)
