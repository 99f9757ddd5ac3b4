"""Offsets that a consumer group is told, for tools that watch its lag. Nobody waits for them, and nothing is ever read from there."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from tidegate.connectors.kafka.client.groups import Groups
from tidegate.connectors.kafka.protocol.errors import Refused
from tidegate.connectors.kafka.protocol.metadata import Partition
from tidegate.model.errors import TidegateError

log = logging.getLogger("tidegate.connectors.kafka")

CLOSE_SECONDS = 1.0
"""For offsets that are on their way when the slot ends."""
PATIENCE_SECONDS = 10.0


class GroupOffsets:
    """One thread of its own. Offsets that came later replace those that have not been sent."""

    def __init__(self, options: Mapping[str, str], group: str) -> None:
        self._group = group
        self._stop = threading.Event()
        self._groups = Groups(options, PATIENCE_SECONDS, self._stop)
        self._changed = threading.Condition()
        self._newest: dict[Partition, int] = {}
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="tidegate-kafka-group", daemon=True)

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Returns at once."""
        if not offsets:
            return
        with self._changed:
            self._newest |= offsets
            self._changed.notify_all()
            if self._thread.ident is None and not self._is_closing:
                self._thread.start()

    def close(self) -> None:
        """Waits a moment for what is on its way. Brokers that are gone are not waited for."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(CLOSE_SECONDS)
        self._stop.set()

    def _run(self) -> None:
        try:
            while (offsets := self._next()) is not None:
                self._send(offsets)
        finally:
            self._groups.close()

    def _next(self) -> dict[Partition, int] | None:
        """None: there is nothing left, and no more will come."""
        with self._changed:
            while not self._newest and not self._is_closing:
                self._changed.wait()
            offsets, self._newest = self._newest, {}
            return offsets or None

    def _send(self, offsets: Mapping[Partition, int]) -> None:
        try:
            self._groups.commit(self._group, offsets)
        except (TidegateError, Refused) as error:
            log.warning("offsets cannot be committed to group %s: %s", self._group, error)
