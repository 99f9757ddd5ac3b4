"""Driver side of the Kafka sink: ends the transactions that slots have prepared, whoever prepared them and lives or not."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence

from tidegate.connectors.kafka.client.groups import Groups
from tidegate.connectors.kafka.client.transactions import Ends, Transactions, words
from tidegate.connectors.kafka.protocol.errors import ENDED_OTHERWISE, Refused
from tidegate.connectors.kafka.protocol.metadata import Partition
from tidegate.connectors.kafka.protocol.transactions import Handle
from tidegate.connectors.kafka.sink.names import TransactionNames, decode
from tidegate.connectors.kafka.sink.publication_notes import PublicationNotes
from tidegate.connectors.kafka.sink_config import KafkaSinkConfig
from tidegate.model.errors import CorruptSnapshot, Unavailable
from tidegate.model.ids import Attempt, CheckpointId
from tidegate.model.snapshot import Committable, HandedBack, Published, by_checkpoint
from tidegate.ports.sink import SinkCommitter

log = logging.getLogger("tidegate.kafka")

SWEEP_SECONDS = 30.0
REMEMBERED = 10_000


class KafkaCommitter(SinkCommitter):
    """``commit`` may be repeated, late, or run by two drivers at once: the brokers decide, and decide the same each time.

    A commit that the brokers refuse, though no marker says that it was done before, is output lost: the checkpoint is named,
    nothing is skipped in silence.
    """

    forgets = True

    def __init__(self, config: KafkaSinkConfig, names: TransactionNames) -> None:
        self._config = config
        self._names = names
        self._visible: dict[Handle, None] = {}
        """Known to be committed; the newest."""
        self._wire = Transactions(config.client)
        self._notes = PublicationNotes(Groups(config.client), names.group)

    def commit(self, committables: tuple[Committable, ...]) -> HandedBack | None:
        """Checkpoint by checkpoint. Hands back the transactions whose coordinator does not answer, and those of later checkpoints."""
        wanted = {decode(one.payload).handle: one for one in sorted(committables, key=lambda one: one.place)}
        left = {handle: one for handle, one in wanted.items() if handle not in self._visible}
        self._note(left.values(), list(left))
        for checkpoint, _ in by_checkpoint(left.values()):
            ends = self._end({handle: one for handle, one in left.items() if one.checkpoint == checkpoint})
            if ends.trouble is not None:
                rest = tuple(one for handle, one in left.items() if handle not in self._visible)
                if len(rest) == len(committables):
                    raise ends.trouble
                return HandedBack(rest, ends.trouble)
        return None

    def _end(self, wanted: dict[Handle, Committable]) -> Ends:
        """Commits these, and remembers those that are visible then."""
        ends = self._wire.end_all(list(wanted), commit=True)
        refused = ends.refused
        self._remember(handle for handle in wanted if handle not in refused and handle not in ends.unanswered)
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
        return ends

    def published(self) -> Published | None:
        """By the note, and by the names of transactional ids, whatever state they are in: an attempt has some before it publishes anything.

        An id is initialised by slots, so its attempt has written down before what it restores. That it stands without a transaction
        proves nothing: one that was committed looks like this as soon as the id is initialised for the next one.
        """
        noted = self._notes.read()
        try:
            names = self._wire.known_ids(self._names.prefix)
        except Refused as error:
            raise Unavailable(f"the Kafka brokers do not name the transactions that they remember: {error}") from error
        attempts = [attempt for attempt in map(self._names.attempt_of, names) if attempt is not None]
        begun = Published(max(attempts), CheckpointId(0)) if attempts else None
        return max((one for one in (noted, begun) if one is not None), default=None)

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

    def _note(self, committables: Iterable[Committable], handles: list[Handle]) -> None:
        """Before anything of it is visible, so that nothing visible is without a note."""
        prepared = [
            Published(attempt, one.checkpoint)
            for one in committables
            if (attempt := self._names.attempt_of(decode(one.payload).transactional_id)) is not None
        ]
        if prepared:
            self._notes.write(max(prepared), lambda: self._written(handles))

    def _written(self, handles: Iterable[Handle]) -> Partition | None:
        """A partition that one of the transactions has written to. None: they are ended already."""
        if self._config.columns.topic is not None:
            return self._config.columns.topic, 0
        found = (partition for handle in handles for partition in self._partitions(handle))
        return next(found, None)

    def _partitions(self, handle: Handle) -> Sequence[Partition]:
        try:
            return self._wire.describe(handle.transactional_id).partitions
        except Refused:
            return ()  # The commit itself will say why.

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


class FormerCommitter(SinkCommitter):
    """For a sink that writes without transactions now: those of an earlier start, which had them, are still owed."""

    def __init__(self, config: KafkaSinkConfig, names: TransactionNames) -> None:
        self._config = config
        self._names = names
        self._former: KafkaCommitter | None = None

    def commit(self, committables: tuple[Committable, ...]) -> HandedBack | None:
        if committables and self._former is None:
            self._former = KafkaCommitter(self._config, self._names)
        return None if self._former is None else self._former.commit(committables)

    def sweep(self, older_than: Attempt, keep: tuple[Committable, ...]) -> None:
        if self._former is not None:
            self._former.sweep(older_than, keep)


def _whose(one: Committable, handle: Handle) -> str:
    return (
        f"{handle.transactional_id} (checkpoint {one.checkpoint}, subtask {one.subtask}, "
        f"producer {handle.producer_id} epoch {handle.epoch})"
    )
