"""What becomes of a checkpoint location while nobody runs the query: its newest manifest is lost, or an older copy takes its place.

It happens long after everything that was under way has landed. A start is then refused, or goes on where nothing is missing; a person
who was refused brings the files back, or accepts that rows come twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tidegate.checkpoint.layout import IMPORTED, ManifestRef, RestoredKey, committed_key, manifest_key, parse
from tidegate.model.ids import Attempt
from tidegate.testing.simulation.location import Location
from tidegate.testing.simulation.setting import Setting

SETTLED_MS = 20_000
"""Whatever a dead driver had asked for has happened by then, or never will."""
COPIED_MS = (500, 8_000)


class Loss(Enum):
    MANIFEST = "the newest manifest"
    SET_BACK = "everything since a copy was made"


@dataclass(frozen=True, slots=True)
class _Copy:
    location: Location
    objects: dict[str, bytes]


class Misplacing:
    """``missing``: what the location held before it was lost, as long as nobody has brought it back."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._agenda = setting.agenda
        self._copy: _Copy | None = None
        self._missing: _Copy | None = None
        self._restored = IMPORTED
        """The newest attempt that knew what it restored when something was lost."""
        self.loss = Loss.MANIFEST
        """The last one."""
        self.set_back = False
        """Files that earlier checkpoints name are gone for good: their cuts cannot be restored on their own."""

    def copy_soon(self, location: Location) -> None:
        """Somebody makes a copy of the location while the query runs."""
        if self._setting.faults.location_set_back:
            self._agenda.soon(*COPIED_MS, lambda: self._copied(location))

    def _copied(self, location: Location) -> None:
        self._copy = _Copy(location, dict(location.store.objects))

    def next_loss(self, location: Location) -> Loss | None:
        """What is about to be lost, if anything."""
        if self._missing is not None:
            return None
        faults, copy = self._setting.faults, self._copy
        if copy is not None and copy.location is location and self._agenda.chance(faults.location_set_back):
            return Loss.SET_BACK
        return Loss.MANIFEST if self._agenda.chance(faults.manifest_lost) else None

    def lose(self, what: Loss, location: Location, newest: ManifestRef | None) -> bool:
        """``newest``: what a start would restore. False: there was nothing to lose."""
        objects, copy = location.store.objects, self._copy
        before = _Copy(location, dict(objects))
        if what is Loss.SET_BACK and copy is not None and copy.location is location:
            self._setting.tally.fault("location_set_back")
            self._agenda.note("people", "put an older copy of the location in its place")
            objects.clear()
            objects.update(copy.objects)
            self.set_back = self._setting.outside.attempts_repeat = True
        elif what is Loss.MANIFEST and newest is not None and newest.attempt != IMPORTED:
            self._setting.tally.fault("manifest_lost")
            self._agenda.note("people", f"lose the manifest of {newest}")
            marked = committed_key(newest) in objects and self._agenda.chance(0.5)
            for key in (manifest_key(newest), *((committed_key(newest),) if marked else ())):
                location.store.attic[key] = objects.pop(key)
        else:
            return False
        self._missing, self.loss = before, what
        self._restored = _newest_restored(location)
        return True

    def excuses(self, location: Location) -> bool:
        """Whether a start may be refused: files are missing, and no attempt has gone on from what is left."""
        missing = self._missing
        return missing is not None and missing.location is location and _newest_restored(location) == self._restored

    def bring_back(self) -> None:
        missing, self._missing = self._missing, None
        if missing is not None:
            self._agenda.note("people", "bring the missing files back")
            missing.location.store.objects.update(missing.objects)


def _newest_restored(location: Location) -> Attempt:
    parsed = map(parse, location.store.objects)
    return max((key.attempt for key in parsed if isinstance(key, RestoredKey)), default=IMPORTED)
