"""Driver side of the Kafka sink: ends the transactions that slots have prepared, whoever prepared them and lives or not."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from tidegate.connectors.kafka.names import TransactionNames, decode
from tidegate.connectors.kafka.sink_config import KafkaSinkConfig
from tidegate.connectors.kafka.wire.errors import ENDED_OTHERWISE
from tidegate.connectors.kafka.wire.transactions import Handle, Transactions, words
from tidegate.model.errors import CorruptSnapshot, Unavailable
from tidegate.model.ids import Attempt
from tidegate.model.snapshot import Committable

log = logging.getLogger("tidegate.kafka")

SWEEP_SECONDS = 30.0
REMEMBERED = 10_000


class KafkaCommitter:
    """``commit`` may be repeated, late, or run by two drivers at once: the brokers decide, and decide the same each time.

    A commit that the brokers refuse, though no marker says that it was done before, is output lost: the checkpoint is named,
    nothing is skipped in silence.
    """

    def __init__(self, config: KafkaSinkConfig, names: TransactionNames) -> None:
        self._config = config
        self._names = names
        self._visible: dict[Handle, None] = {}
        """Known to be committed; the newest."""
        self._wire = Transactions(config.client)

    def commit(self, committables: tuple[Committable, ...]) -> None:
        wanted = {decode(one.payload).handle: one for one in sorted(committables, key=lambda one: one.place)}
        asked = [handle for handle in wanted if handle not in self._visible]
        refused = self._wire.end_all(asked, commit=True)
        self._remember(handle for handle in asked if handle not in refused)
        for handle, code in refused.items():
            if code not in ENDED_OTHERWISE:
                raise Unavailable(f"Kafka does not commit {_whose(wanted[handle], handle)}: {words(code)}")
        lost = [f"{_whose(wanted[handle], handle)}: {words(code)}" for handle, code in refused.items()]
        if lost and not self._config.accept_loss:
            raise CorruptSnapshot(
                f"output of a completed checkpoint is lost: Kafka cannot commit {'; '.join(lost)}",
                hint="the rows are missing from the topic for good. To go on without them, set the sink's option "
                "onLostTransaction to skip; to avoid it, let kafka.transaction.timeout.ms exceed the longest outage",
            )
        for one in lost:
            log.error("output is lost, and given up by onLostTransaction=skip: %s", one)
        self._remember(refused)

    def already_committed(self, committables: tuple[Committable, ...]) -> None:
        self._remember(decode(one.payload).handle for one in committables)

    def sweep(self, older_than: Attempt, keep: tuple[Committable, ...]) -> None:
        """Asks again until none is left: a slot of an older attempt that still runs may begin one in between."""
        kept = {decode(one.payload).transactional_id for one in keep}
        until = time.monotonic() + SWEEP_SECONDS
        while left := self._abandoned(older_than, kept):
            if time.monotonic() > until:
                raise Unavailable(f"Kafka transactions of older attempts come back again and again: {left[0]}")
            for name in left:
                # Not EndTxn: that would leave the id, and the next transaction under it, to whoever holds it.
                self._wire.initialise(name, self._config.transaction_timeout_ms)
                log.info("aborted Kafka transaction %s: no checkpoint will commit it", name)

    def _abandoned(self, older_than: Attempt, kept: set[str]) -> list[str]:
        found: list[str] = []
        for name in self._wire.open_ids(self._names.prefix):
            attempt = self._names.attempt_of(name)
            if attempt is not None and attempt < older_than and name not in kept:
                found.append(name)
        return found

    def _remember(self, handles: Iterable[Handle]) -> None:
        self._visible |= dict.fromkeys(handles)
        for oldest in list(self._visible)[: max(0, len(self._visible) - REMEMBERED)]:
            del self._visible[oldest]


class FormerCommitter:
    """For a sink that writes without transactions now: those of an earlier start, which had them, are still owed."""

    def __init__(self, config: KafkaSinkConfig, names: TransactionNames) -> None:
        self._config = config
        self._names = names
        self._former: KafkaCommitter | None = None

    def commit(self, committables: tuple[Committable, ...]) -> None:
        if committables and self._former is None:
            self._former = KafkaCommitter(self._config, self._names)
        if self._former is not None:
            self._former.commit(committables)

    def sweep(self, older_than: Attempt, keep: tuple[Committable, ...]) -> None:
        if self._former is not None:
            self._former.sweep(older_than, keep)


def _whose(one: Committable, handle: Handle) -> str:
    return (
        f"{handle.transactional_id} (checkpoint {one.checkpoint}, subtask {one.subtask}, "
        f"producer {handle.producer_id} epoch {handle.epoch})"
    )
