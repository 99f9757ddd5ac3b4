"""A store that fails before, during and after a write, is full, slow or throttled. What it shows is never torn."""

from __future__ import annotations

import errno
from collections.abc import Callable

from tidegate.model.errors import Unavailable
from tidegate.model.os_errors import explain
from tidegate.ports.store import AlreadyThere, BlobStore, Created, CreateOutcome
from tidegate.testing.simulation.agenda import Agenda
from tidegate.testing.simulation.faults import Faults, Tally

LANDS_AFTER_MS = (500, 6_000)
QUICK_MS = (1, 80)
SLOW_MS = (1_000, 6_000)


class SimulatedStore(BlobStore):
    """``objects`` is the truth; ``attic`` keeps what was deleted, for auditors."""

    def __init__(self, agenda: Agenda, faults: Faults, tally: Tally) -> None:
        self._agenda = agenda
        self._tally = tally
        self.faults = faults
        self.objects: dict[str, bytes] = {}
        self.attic: dict[str, bytes] = {}
        self.born_ms: dict[str, int] = {}
        self.torn: dict[str, bytes] = {}
        """Parts of objects, under temporary names: no listing shows them."""
        self.on_created: Callable[[str, bytes], None] = lambda _key, _data: None
        self.on_delete: Callable[[str], None] = lambda _key: None
        self._full_until_ms = 0
        self._throttled_until_ms = 0

    def fill_up(self, duration_ms: int) -> None:
        self._agenda.note("store", f"is full for {duration_ms} ms")
        self._full_until_ms = self._agenda.now_ms + duration_ms

    def throttle(self, duration_ms: int) -> None:
        self._throttled_until_ms = self._agenda.now_ms + duration_ms

    def calm_down(self) -> None:
        """No faults from now on."""
        self.faults = Faults()
        self._full_until_ms = self._throttled_until_ms = 0

    def latency_ms(self) -> int:
        """How long the next operation takes."""
        if self._agenda.chance(self.faults.storage_slow):
            self._tally.fault("storage_slow")
            return self._agenda.random.randint(*SLOW_MS)
        return self._agenda.random.randint(*QUICK_MS)

    def create(self, key: str, data: bytes) -> CreateOutcome:
        self._maybe_throttle(key)
        if self._agenda.now_ms < self._full_until_ms:
            self._tally.fault("storage_full")
            raise explain(OSError(errno.ENOSPC, "no space left on device"), "write", key)
        if self._agenda.chance(self.faults.create_fails):
            self._tally.fault("create_fails")
            raise Unavailable(f"creating {key} failed")
        if self._agenda.chance(self.faults.create_torn):
            self._tally.fault("create_torn")
            self.torn[key] = data[: len(data) // 2]
            raise Unavailable(f"creating {key} failed in the middle")
        if self._agenda.chance(self.faults.create_lands_late):
            self._tally.fault("create_lands_late")
            self._agenda.soon(*LANDS_AFTER_MS, lambda: self._land(key, data))
            raise Unavailable(f"no answer to creating {key}")
        outcome = self.put(key, data)
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
        self._maybe_throttle(key)
        if self._agenda.chance(self.faults.delete_fails):
            self._tally.fault("delete_fails")
            raise Unavailable(f"deleting {key} failed")
        if key in self.objects:
            self.on_delete(key)
            self.attic[key] = self.objects.pop(key)

    def put(self, key: str, data: bytes) -> CreateOutcome:
        """Create-if-absent, without faults."""
        if key in self.objects:
            return AlreadyThere()
        self.objects[key] = data
        self.born_ms[key] = self._agenda.now_ms
        self.on_created(key, data)
        return Created()

    def _land(self, key: str, data: bytes) -> None:
        self._agenda.note("store", f"{key} lands late")
        self.put(key, data)

    def _maybe_throttle(self, key: str) -> None:
        if self._agenda.now_ms < self._throttled_until_ms:
            self._tally.fault("storage_throttled")
            raise Unavailable(f"too many requests: {key}")

    def _maybe_fail_reading(self, what: str) -> None:
        self._maybe_throttle(what)
        if self._agenda.chance(self.faults.read_fails):
            self._tally.fault("read_fails")
            raise Unavailable(f"reading {what} failed")
