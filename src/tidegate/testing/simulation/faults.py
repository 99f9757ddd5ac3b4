"""What can go wrong, how often, and how often it did."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Probabilities: of storage faults per operation, of message faults per message, of process faults per second."""

    slot_crash: float = 0.0
    """A slot process dies: kill -9."""
    driver_crash: float = 0.0
    """The driver dies; what it had asked the store or a sink to do may still happen, late. A person starts it again."""
    driver_freeze: float = 0.0
    """The driver stops for seconds (SIGSTOP, a long pause) and goes on as a zombie, while a person starts another."""
    slot_freeze: float = 0.0
    """A slot stops for seconds, is given up, and then goes on sending."""
    second_driver: float = 0.0
    """A person starts the query a second time while it runs."""
    create_fails: float = 0.0
    """A create is refused by a fault before anything happened."""
    create_answer_lost: float = 0.0
    """A create happens, its answer is lost."""
    create_lands_late: float = 0.0
    """A create is reported as failed and happens seconds later."""
    read_fails: float = 0.0
    delete_fails: float = 0.0
    commit_fails: float = 0.0
    """A sink's commit fails before it did anything."""
    commit_answer_lost: float = 0.0
    """A sink commits, then reports failure."""
    commit_partly: float = 0.0
    """A sink commits some of the committables, then fails."""
    message_repeated: float = 0.0
    message_delayed: float = 0.0
    """A control message overtakes others or is overtaken."""
    notice_lost: float = 0.0
    """An advisory message (completed, committed, aborted) never arrives."""
    request: float = 0.0
    """A person asks for a checkpoint."""
    rescale: float = 0.0
    """A person starts the query again with another parallelism (per restart by a person)."""

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(f.name for f in fields(self))


class Tally:
    """How often each fault kind and each recovery path occurred."""

    def __init__(self) -> None:
        self.faults: Counter[str] = Counter()
        self.paths: Counter[str] = Counter()

    def fault(self, kind: str) -> None:
        self.faults[kind] += 1

    def path(self, name: str) -> None:
        self.paths[name] += 1

    def add(self, other: Tally) -> None:
        self.faults.update(other.faults)
        self.paths.update(other.paths)
