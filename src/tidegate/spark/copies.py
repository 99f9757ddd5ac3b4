"""A slot is one process per attempt. Spark may start its task again behind our back: the second copy is never let in."""

from __future__ import annotations

from tidegate.checkpoint.events import Failure
from tidegate.model.messages import SlotRegistered


def started_again(known: SlotRegistered | None, now: SlotRegistered) -> Failure | None:
    """Why the attempt is over when another process registers for a slot that has one. A repeated message is no other process.

    Spark submits a barrier stage again by itself when one of its tasks fails. The copies would wait for a start that has been, and
    their heartbeats would hide that the first ones are gone.
    """
    if known is None or (known.host, known.pid, known.address) == (now.host, now.pid, now.address):
        return None
    return Failure(
        "SLOT_LOST",
        f"Spark started slot {now.slot} again (process {now.pid} on {now.host}) "
        f"while process {known.pid} on {known.host} was to run it",
        hint="a task of the slots failed; Spark's log says which and why. The next attempt starts all of them anew",
    )
