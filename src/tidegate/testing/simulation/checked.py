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
from tidegate.testing.simulation.sinks import Transaction
from tidegate.testing.simulation.store import SimulatedStore
from tidegate.testing.simulation.timed_run import TimedSimulation
from tidegate.testing.simulation.world import Inheritance, Simulation, Verdict

CUTS_MAX = 1
SAVEPOINTS_MAX = 1
"""Of each run; thousands of seeds make thousands of cuts."""


def checked(seed: int, *, keep_trace: bool = False) -> Verdict:
    simulation = Simulation(seed, keep_trace=keep_trace)
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
    if verdict.violations or simulation.people.drained:
        return verdict
    cuts = simulation.cuts
    violations = list(verdict.violations)
    for turn in range(min(CUTS_MAX, len(cuts))):
        cut = cuts[(seed * 7 + turn * 3) % len(cuts)]
        again = replay(simulation, seed, _inheritance(simulation, cut))
        verdict.tally.path("cut restored on its own")
        violations += [f"checkpoint {cut.manifest.ref} is no consistent cut: {one}" for one in again.violations]
    for name, inheritance in islice(_savepoints(simulation), SAVEPOINTS_MAX):
        again = replay(simulation, seed, inheritance)
        verdict.tally.path("savepoint imported on its own")
        violations += [f"{name} is no consistent cut: {one}" for one in again.violations]
    return replace(verdict, violations=tuple(violations))


def replay(simulation: Simulation, seed: int, inheritance: Inheritance) -> Verdict:
    """Run on from one moment of a finished run, in peace."""
    again = Simulation(
        seed + 1,
        faults=Faults(),
        query=simulation.query,
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
    prepared = {one: outside.visible[one] for one in _carried(manifest) if one not in visible}
    # The manifest last, as it was written.
    order = sorted(needed, key=lambda key: (key == manifest_key(manifest.ref), key))
    return Inheritance({key: everything[key] for key in order}, visible, prepared)


def _savepoints(simulation: Simulation) -> Iterator[tuple[str, Inheritance]]:
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
        visible = {one: outside.visible[one] for one in dict.fromkeys((*shown, *_carried(cut.manifest)))}
        yield name, Inheritance(dict(place.store.objects), visible, {}, place=2)


def _carried(manifest: Manifest) -> list[Transaction]:
    return [
        msgspec.msgpack.decode(one.payload, type=Transaction) for _, some in manifest.committables() for one in some
    ]
