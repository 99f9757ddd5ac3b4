"""One seed with everything that is checked about it: the run itself, then checkpoints of it restored on their own.

A checkpoint is a consistent cut when what was visible or carried at that moment, and what a run from it adds, are the answer together:
nothing lost, nothing twice. It is restored from its manifest and chunks alone, in an empty world, with another parallelism.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

import msgspec

from tidegate.checkpoint.importing import find, perform_import
from tidegate.checkpoint.layout import ClaimKey, RestoredKey, manifest_key, parse
from tidegate.checkpoint.manifest import Manifest
from tidegate.checkpoint.savepoint import read_savepoint
from tidegate.testing.simulation.agenda import Agenda
from tidegate.testing.simulation.auditors import Cut
from tidegate.testing.simulation.faults import Faults, Tally
from tidegate.testing.simulation.location import location_number
from tidegate.testing.simulation.manner import Manner
from tidegate.testing.simulation.sinks import Transaction
from tidegate.testing.simulation.store import SimulatedStore
from tidegate.testing.simulation.timed_run import TimedSimulation
from tidegate.testing.simulation.traits import PASSED, Change, Traits
from tidegate.testing.simulation.world import Inheritance, Simulation, Verdict

CUTS_MAX = 1
CUTS_MAX_CROWDED = 4
"""Where chunks merge and hide what was deleted, each checkpoint may be the one that is wrong."""
SAVEPOINTS_MAX = 1
"""Of each run; thousands of seeds make thousands of cuts."""


def checked(
    seed: int,
    *,
    faults: Faults | None = None,
    manner: Manner | None = None,
    traits: Traits | None = None,
    keep_trace: bool = False,
) -> Verdict:
    """``faults``, ``manner``, ``traits``: None: what the seed itself says."""
    simulation = Simulation(seed, faults=faults, manner=manner, traits=traits, keep_trace=keep_trace)
    return _caught(simulation, lambda: _with_cuts(simulation, seed))


def checked_time(seed: int, *, keep_trace: bool = False) -> Verdict:
    """A small world of event time, whose judge knows which rows may be late."""
    simulation = TimedSimulation(seed, keep_trace=keep_trace)
    return _caught(simulation, simulation.run)


def _caught(simulation: Simulation, run: Callable[[], Verdict]) -> Verdict:
    try:
        return run()
    except Exception as error:  # noqa: BLE001
        # Whatever the code raises that it did not announce is a finding like any other; the other seeds go on.
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"
        accused = f"{type(error).__name__} at {where}: {error}"
        return replace(simulation.verdict, violations=(accused,), tally=Tally())


def _with_cuts(simulation: Simulation, seed: int) -> Verdict:
    verdict = simulation.run()
    people = simulation.people
    if verdict.violations or people.drained or people.repeats or people.misplacing.set_back:
        return verdict
    cuts = simulation.cuts
    violations = list(verdict.violations)
    for turn in range(min(CUTS_MAX_CROWDED if simulation.manner.crowded else CUTS_MAX, len(cuts))):
        cut = cuts[(seed * 7 + turn * 3) % len(cuts)]
        again = replay(simulation, seed, _inheritance(simulation, cut), cut.manifest)
        verdict.tally.path("cut restored on its own")
        _count_state(verdict.tally, again.tally)
        violations += [f"checkpoint {cut.manifest.ref} is no consistent cut: {one}" for one in again.violations]
    for name, inheritance, manifest in islice(_savepoints(simulation), SAVEPOINTS_MAX):
        again = replay(simulation, seed, inheritance, manifest)
        verdict.tally.path("savepoint imported on its own")
        _count_state(verdict.tally, again.tally)
        violations += [f"{name} is no consistent cut: {one}" for one in again.violations]
    return replace(verdict, violations=tuple(violations))


def _count_state(tally: Tally, of: Tally) -> None:
    """What became of stored state counts wherever it happened; faults and endings of the first run alone are counted."""
    tally.paths.update({path: times for path, times in of.paths.items() if path.startswith("state: ")})


def replay(simulation: Simulation, seed: int, inheritance: Inheritance, manifest: Manifest) -> Verdict:
    """Run on from one moment of a finished run, in peace, with the operators that the checkpoint knows."""
    query = simulation.query.changed(Change(passed=PASSED in manifest.stateful))
    again = Simulation(
        seed + 1,
        faults=Faults(),
        query=query,
        manner=simulation.manner,
        inheritance=inheritance,
    )
    return again.run()


def _inheritance(simulation: Simulation, cut: Cut) -> Inheritance:
    people = simulation.people
    store, outside = people.auditors[0].store, simulation.outside
    everything = {**store.attic, **store.objects}
    manifest = cut.manifest
    needed = {manifest_key(manifest.ref), *manifest.chunk_keys()}
    for key in everything:
        match parse(key):
            case ClaimKey(attempt) | RestoredKey(attempt) if attempt <= manifest.attempt:
                needed.add(key)
            case _:
                continue
    visible = dict(islice(outside.visible.items(), cut.visible))
    prepared = {one: outside.made[one] for one in _carried(manifest) if one not in visible}
    # The manifest last, as it was written.
    order = sorted(needed, key=lambda key: (key == manifest_key(manifest.ref), key))
    return Inheritance({key: everything[key] for key in order}, visible, prepared)


def _savepoints(simulation: Simulation) -> Iterator[tuple[str, Inheritance, Manifest]]:
    """Every complete savepoint of the first location, imported into an empty one. Its output is visible, all of it."""
    people, outside = simulation.people, simulation.outside
    for name, store in people.savepoints.items():
        store.calm_down()
        savepoint = read_savepoint(store)
        cut = people.auditors[0].completed.get(savepoint.manifest.ref) if savepoint is not None else None
        if cut is None or cut.manifest.pipeline != people.auditors[0].pipeline:
            continue
        place = location_number(2, SimulatedStore(Agenda(0), Faults(), Tally()))
        perform_import(find(name, lambda _path, one=store: one), place.store, place.pipeline, place.pipeline)
        shown = list(outside.visible)[: cut.visible]
        visible = {one: outside.made[one] for one in dict.fromkeys((*shown, *_carried(cut.manifest)))}
        yield name, Inheritance(dict(place.store.objects), visible, {}, place=2), cut.manifest


def _carried(manifest: Manifest) -> list[Transaction]:
    return [
        msgspec.msgpack.decode(one.payload, type=Transaction) for _, some in manifest.committables() for one in some
    ]
