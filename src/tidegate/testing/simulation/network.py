"""Control messages between the driver and its slots: lost, late, repeated, in any order. Nobody is told."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.model import messages
from tidegate.testing.simulation.agenda import Agenda
from tidegate.testing.simulation.faults import Faults, Tally

ADVISORY = (messages.CheckpointCompleted, messages.CheckpointCommitted, messages.CheckpointAborted)
CONTROL_MS = (0, 20)


class Network:
    def __init__(self, agenda: Agenda, faults: Faults, tally: Tally) -> None:
        self._agenda = agenda
        self._tally = tally
        self.faults = faults

    def carry(self, message: messages.SlotMessage | messages.DriverMessage, arrive: Callable[[], None]) -> None:
        agenda, faults, tally = self._agenda, self.faults, self._tally
        if isinstance(message, ADVISORY) and agenda.chance(faults.notice_lost):
            tally.fault("notice_lost")
            return
        if agenda.chance(faults.message_lost):
            tally.fault("message_lost")
            agenda.note("network", f"{type(message).__name__} is lost")
            return
        if agenda.chance(faults.message_repeated):
            tally.fault("message_repeated")
            agenda.soon(0, 3_000, arrive)
        if agenda.chance(faults.message_delayed):
            tally.fault("message_delayed")
            agenda.soon(20, 1_500, arrive)
        else:
            agenda.soon(*CONTROL_MS, arrive)
