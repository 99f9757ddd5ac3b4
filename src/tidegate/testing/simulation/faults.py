"""What can go wrong, how often, and how often it did."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, fields


def _fault(highest: float) -> float:
    """A kind of fault that does not occur by default; random runs choose a strength up to ``highest``."""
    return field(default=0.0, metadata={"highest": highest})


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Probabilities: of storage faults per operation, of message faults per message, of all others per second."""

    # Processes
    slot_crash: float = _fault(0.4)
    """A slot process dies: kill -9."""
    slot_freeze: float = _fault(0.15)
    """A slot stops for seconds, is given up, and then goes on sending."""
    driver_crash: float = _fault(0.2)
    """The driver dies; what it had asked the store or a sink to do may still happen, late. A person starts it again."""
    driver_freeze: float = _fault(0.1)
    """The driver stops for seconds (SIGSTOP, a long pause) and goes on as a zombie, while a person starts another."""
    second_driver: float = _fault(0.08)
    """A person starts the query a second time while it runs."""
    clock_jump: float = _fault(0.2)
    """The monotonic clock of one process steps forward by minutes: its machine was suspended."""
    clock_skew: float = _fault(1.0)
    """Clocks of processes differ by minutes (per process)."""

    # Messages between driver and slots
    message_lost: float = _fault(0.08)
    message_repeated: float = _fault(0.1)
    message_delayed: float = _fault(0.1)
    """A control message overtakes others or is overtaken."""
    notice_lost: float = _fault(0.3)
    """An advisory message (completed, committed, aborted) never arrives: lost more often than others."""

    # Channels between slots
    channel_slow: float = _fault(0.6)
    """A channel needs seconds for a while; its order stays."""
    channel_broken: float = _fault(0.08)
    """The connection of a channel breaks: what is under way is lost, and the attempt with it."""

    # Storage
    create_fails: float = _fault(0.12)
    """A create is refused by a fault before anything happened."""
    create_torn: float = _fault(0.08)
    """A create fails in the middle: a part of the data is left behind, under a name that nobody lists."""
    create_answer_lost: float = _fault(0.12)
    """A create happens, its answer is lost."""
    create_lands_late: float = _fault(0.12)
    """A create is reported as failed and happens seconds later."""
    read_fails: float = _fault(0.08)
    delete_fails: float = _fault(0.2)
    delete_partly: float = _fault(0.5)
    """A cleanup round does part of its work (per round): its driver dies in the middle, or its time is up."""
    storage_slow: float = _fault(0.1)
    """An operation takes seconds."""
    storage_full: float = _fault(0.08)
    """For seconds nothing can be created; what is there can be read and deleted."""
    storage_throttled: float = _fault(0.15)
    """For a moment every operation is refused."""

    # Sinks
    settle_fails: float = _fault(0.1)
    """Rows that a sink has prepared do not become durable in time; the next snapshot tries again."""
    commit_fails: float = _fault(0.2)
    """A sink's commit fails before it did anything."""
    commit_partly: float = _fault(0.2)
    """A sink commits some of the committables, then fails."""
    commit_answer_lost: float = _fault(0.2)
    """A sink commits, then reports failure."""
    commit_lands_late: float = _fault(0.15)
    """A sink reports failure, and commits seconds later all the same."""
    commit_slow: float = _fault(0.15)
    """A commit takes seconds."""

    # User code
    user_function_raises: float = _fault(0.05)
    """A user function fails for a reason that lies outside (per call); the next time it may not."""

    # People
    request: float = _fault(0.4)
    """A person asks for a checkpoint."""
    savepoint: float = _fault(0.12)
    """A person asks for a savepoint: to run on, to suspend and go on here or elsewhere, or to drain."""
    backlog: float = _fault(0.3)
    """Sources fall far behind their input, or catch up."""
    stop: float = _fault(0.05)
    """A person stops the query and starts it again."""
    rescale: float = _fault(0.8)
    """A person starts the query again with another parallelism (per start)."""
    reconfigure: float = _fault(0.8)
    """A person starts the query again with other intervals, concurrency or retention (per start)."""

    # The checkpoint location, while nobody runs the query
    manifest_lost: float = _fault(0.5)
    """The newest manifest is gone when a person starts again (per start)."""
    location_set_back: float = _fault(0.5)
    """An older copy is in the place of the location when a person starts again (per start)."""

    # Sources, and the way to a sink
    look_fails: float = _fault(0.2)
    """A look for new splits fails (per look): nobody learns anything from it."""
    look_slow: float = _fault(0.2)
    """A look takes seconds (per look), and sees only some of what appears meanwhile."""
    send_slow: float = _fault(0.2)
    """A sink's batch gets lost on its way and arrives seconds later (per batch): nothing written behind it may stand before it."""
    settling_crash: float = _fault(0.05)
    """A process dies between the last row of a split and the watermark that it allows (per step on that way)."""

    # People once more. Behind the others, so that older seeds have the faults they had
    change_query: float = _fault(0.8)
    """A person starts the query again with a filter, a projection or a stateful operator more or fewer (per start)."""

    # Sinks once more
    hands_back: float = _fault(0.3)
    """A sink makes some of what it was asked for visible, in order, and hands back the rest (per commit)."""

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(one.name for one in fields(self))


def random_faults(seed: int) -> Faults:
    """Each run has some fault kinds, in some strength: a run with all of them would never get anywhere."""
    chance = random.Random(seed ^ 0x5EED)
    share = chance.choice((0.2, 0.4, 0.65))
    chosen = {one.name: chance.random() * one.metadata["highest"] for one in fields(Faults) if chance.random() < share}
    return Faults(**chosen)


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
