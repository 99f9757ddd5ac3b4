"""What a cluster keeps under the name of a consumer group: offsets, and texts beside them."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from tidegate.connectors.kafka.client.brokers import PATIENCE_SECONDS, Brokers
from tidegate.connectors.kafka.protocol.errors import RETRIABLE, Code, Refused
from tidegate.connectors.kafka.protocol.groups import USED, commit_offsets, commit_text, fetch_texts
from tidegate.connectors.kafka.protocol.metadata import GROUP, Partition, find_coordinator, metadata
from tidegate.connectors.kafka.protocol.requests import Address


class Groups(Brokers):
    """Connections are kept. Not for several threads at a time. Raises ``Refused`` for what asking again does not help."""

    def __init__(
        self, options: Mapping[str, str], patience_s: float = PATIENCE_SECONDS, stop: threading.Event | None = None
    ) -> None:
        super().__init__(options, patience_s, stop)
        self._coordinators: dict[str, Address] = {}

    def check_versions(self) -> None:
        for name, version in self.unknown(USED):
            raise Refused(Code.UNSUPPORTED_VERSION, f"{name} version {version}")

    def write(self, group: str, partition: Partition, text: str) -> None:
        """In place of what was there."""

        def once() -> None:
            self._check(self._ask(self._coordinator(group), commit_text(group, partition, text)), group)

        self._patiently("a note in a consumer group", once)

    def commit(self, group: str, offsets: Mapping[Partition, int]) -> None:
        asked = commit_offsets(group, {partition: (offset, "") for partition, offset in offsets.items()})

        def once() -> None:
            for error in self._ask(self._coordinator(group), asked).values():
                self._check(error, group)

        self._patiently("the offsets of a consumer group", once)

    def read(self, group: str) -> dict[Partition, str]:
        """All texts of the group that are not empty. A group that nobody knows has none."""

        def once() -> dict[Partition, str]:
            answer = self._ask(self._coordinator(group), fetch_texts(group))
            for error in (answer.error, *answer.errors.values()):
                self._check(error, group)
            return {partition: text for partition, text in answer.texts.items() if text}

        return self._patiently("the notes of a consumer group", once)

    def _coordinator(self, group: str) -> Address:
        known = self._coordinators.get(group)
        if known is None:
            if not self._brokers:
                self._described(metadata(()))
            answer = self._any(find_coordinator(group, GROUP))
            self._check(answer.error, group)
            known = self._coordinators[group] = answer.address
        return known

    def _check(self, error: int, group: str) -> None:
        if error:
            if error in RETRIABLE:
                self._coordinators.pop(group, None)
            raise Refused(error, f"consumer group {group}")

    def _drop(self, address: Address) -> None:
        """What this broker coordinated may be elsewhere by now."""
        super()._drop(address)
        self._coordinators = {one: at for one, at in self._coordinators.items() if at != address}
