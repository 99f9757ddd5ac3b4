"""A store that fails before, during and after a write, and answers late. What it holds is never torn."""

from __future__ import annotations

from tidegate.checkpoint.ports import AlreadyThere, Created, CreateOutcome
from tidegate.model.errors import Unavailable
from tidegate.testing.simulation.agenda import Agenda
from tidegate.testing.simulation.faults import Faults, Tally

LANDS_AFTER_MS = (500, 6_000)


class SimulatedStore:
    """Implements ``checkpoint.ports.BlobStore``. ``objects`` is the truth, for auditors."""

    def __init__(self, agenda: Agenda, faults: Faults, tally: Tally) -> None:
        self._agenda = agenda
        self._tally = tally
        self.faults = faults
        self.objects: dict[str, bytes] = {}
        self.deleted: set[str] = set()

    def create(self, key: str, data: bytes) -> CreateOutcome:
        if self._agenda.chance(self.faults.create_fails):
            self._tally.fault("create_fails")
            raise Unavailable(f"creating {key} failed")
        if self._agenda.chance(self.faults.create_lands_late):
            self._tally.fault("create_lands_late")
            self._agenda.soon(*LANDS_AFTER_MS, lambda: self._land(key, data))
            raise Unavailable(f"no answer to creating {key}")
        outcome = self._put(key, data)
        if self._agenda.chance(self.faults.create_answer_lost):
            self._tally.fault("create_answer_lost")
            raise Unavailable(f"no answer to creating {key}")
        return outcome

    def read(self, key: str) -> bytes | None:
        self._maybe_fail_reading(key)
        return self.objects.get(key)

    def list(self, prefix: str) -> tuple[str, ...]:
        self._maybe_fail_reading(prefix)
        return tuple(sorted(key for key in self.objects if key.startswith(prefix)))

    def delete(self, key: str) -> None:
        if self._agenda.chance(self.faults.delete_fails):
            self._tally.fault("delete_fails")
            raise Unavailable(f"deleting {key} failed")
        if self.objects.pop(key, None) is not None:
            self.deleted.add(key)

    def _put(self, key: str, data: bytes) -> CreateOutcome:
        if key in self.objects:
            return AlreadyThere()
        self.objects[key] = data
        return Created()

    def _land(self, key: str, data: bytes) -> None:
        self._agenda.note("store", f"{key} lands late")
        self._put(key, data)

    def _maybe_fail_reading(self, what: str) -> None:
        if self._agenda.chance(self.faults.read_fails):
            self._tally.fault("read_fails")
            raise Unavailable(f"reading {what} failed")
