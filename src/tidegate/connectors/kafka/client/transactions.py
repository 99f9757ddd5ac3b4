"""What the sink asks a cluster about transactions of processes that may be dead. Asks again, within a time limit, whatever
may pass: a broker that is down, a coordinator that moves, a transaction that is just being ended."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from tidegate.connectors.kafka.client.brokers import PATIENCE_SECONDS, Brokers
from tidegate.connectors.kafka.protocol import producing, transactions
from tidegate.connectors.kafka.protocol.errors import RETRIABLE, Code, Refused, name_of
from tidegate.connectors.kafka.protocol.metadata import (
    Partition,
    describe_broker,
    find_coordinator,
    metadata,
)
from tidegate.connectors.kafka.protocol.requests import Address
from tidegate.connectors.kafka.protocol.transactions import (
    EVERY_STATE,
    OPEN_STATES,
    Described,
    Handle,
    Initialised,
    add_partitions,
    describe_transaction,
    end_transaction,
    init_producer_id,
    list_transactions,
)
from tidegate.model.errors import Unavailable

Answer = TypeVar("Answer")


class Ends(NamedTuple):
    """What became of transactions that were to be ended. Those in neither field are ended, or were already."""

    refused: dict[Handle, int]
    """Those that cannot be ended that way, with the brokers' error codes."""
    unanswered: tuple[Handle, ...] = ()
    """Those whose coordinator has not ended them in time: they may be asked for again."""
    trouble: Unavailable | None = None
    """Why it has not."""


class Transactions(Brokers):
    """Connections are kept; any number may exist at once. Not for several threads at a time."""

    def __init__(
        self,
        options: Mapping[str, str],
        patience_s: float = PATIENCE_SECONDS,
        stop: threading.Event | None = None,
        connect_patience_s: float | None = None,
    ) -> None:
        super().__init__(options, patience_s, stop, connect_patience_s)
        self._coordinators: dict[str, Address] = {}

    def check_versions(self) -> None:
        """Raises InvalidQuery when the brokers are too old to say what becomes of a transaction."""
        self.require(
            (*transactions.USED, *producing.USED),
            hint="exactly-once output needs Kafka 3.0 or later; at-least-once works with older ones, from 2.7 on",
        )

    def check_versions_without(self) -> None:
        """Raises InvalidQuery when the brokers are too old for a producer without transactions."""
        self.require((*transactions.USED_WITHOUT, *producing.USED), hint="Tidegate writes to Kafka 2.7 or later")

    def setting(self, name: str) -> str | None:
        """What a broker is set to; None: it does not say so."""

        def once() -> str | None:
            node, address = next(iter(self._described(metadata(())).brokers.items()))
            return self._ask(address, describe_broker(node, (name,))).get(name)

        return self._patiently(f"the setting {name}", once)

    def end_all(self, handles: Sequence[Handle], *, commit: bool) -> Ends:
        """Each is asked for until its coordinator answers, or until patience ends. One that does not answer holds up no other."""
        refused: dict[Handle, int] = {}
        left = dict.fromkeys(handles)
        if left:
            try:
                self._patiently("the end of a transaction", lambda: self._end_once(left, refused, commit=commit))
            except Unavailable as error:
                return Ends(refused, tuple(left), error)
        return Ends(refused)

    def _end_once(self, left: dict[Handle, None], refused: dict[Handle, int], *, commit: bool) -> None:
        """Whatever is decided leaves ``left`` at once: it is not ended again."""
        groups, troubles = self._by_coordinator(tuple(left))
        for address, group in groups:
            asked = [end_transaction(h.transactional_id, h.producer_id, h.epoch, commit=commit) for h in group]
            try:
                answers = self._ask_all(address, asked)
            except OSError as error:
                troubles.append(error)
                continue
            for handle, error in zip(group, answers, strict=True):
                if error in RETRIABLE:
                    self._coordinators.pop(handle.transactional_id, None)
                    troubles.append(Refused(error, f"the end of {handle.transactional_id}"))
                    continue
                del left[handle]
                if error:
                    refused[handle] = error
        if troubles:
            raise troubles[0]

    def describe(self, transactional_id: str) -> Described:
        def once() -> Described:
            answer = self._ask(self._coordinator(transactional_id), describe_transaction(transactional_id))
            return self._checked(answer, answer.error, transactional_id)

        return self._patiently("the state of a transaction", once)

    def initialise(self, transactional_id: str, timeout_ms: int) -> Handle:
        """Aborts what the id has open, and fences its former producer. An empty id: a new producer without transactions."""
        asked = init_producer_id(transactional_id, timeout_ms)

        def once() -> Handle:
            answer: Initialised
            if transactional_id:
                answer = self._ask(self._coordinator(transactional_id), asked)
            else:
                answer = self._any(asked)
            self._checked(answer, answer.error, transactional_id or "a producer")
            return Handle(transactional_id, answer.producer_id, answer.epoch)

        return self._patiently("a producer id", once)

    def add_partitions(self, handle: Handle, partitions: Iterable[Partition]) -> None:
        """The transaction is going to write there; it is open from now on."""
        asked = add_partitions(handle.transactional_id, handle.producer_id, handle.epoch, tuple(partitions))

        def once() -> None:
            answer = self._ask(self._coordinator(handle.transactional_id), asked)
            # One that is refused keeps the others from being added: what was tried says more than what was not.
            refused = sorted((code == Code.OPERATION_NOT_ATTEMPTED, code) for code in answer.values() if code)
            if refused:
                self._checked(None, refused[0][1], handle.transactional_id)

        self._patiently("the partitions of a transaction", once)

    def open_ids(self, prefix: str) -> tuple[str, ...]:
        """Transactional ids that begin so and have a transaction open, on all brokers."""
        return self._ids(prefix, OPEN_STATES)

    def known_ids(self, prefix: str) -> tuple[str, ...]:
        """Transactional ids that begin so and that a broker remembers, whatever became of their transactions."""
        return self._ids(prefix, EVERY_STATE)

    def _ids(self, prefix: str, states: tuple[str, ...]) -> tuple[str, ...]:
        def once() -> tuple[str, ...]:
            found: set[str] = set()
            self._described(metadata(()))
            for address in self._brokers:
                listing = self._ask(address, list_transactions(states))
                if listing.error:
                    raise Refused(listing.error, "the list of transactions")
                found.update(one.transactional_id for one in listing.transactions)
            return tuple(sorted(one for one in found if one.startswith(prefix)))

        return self._patiently("the list of transactions", once)

    def _by_coordinator(
        self, handles: Iterable[Handle]
    ) -> tuple[list[tuple[Address, list[Handle]]], list[OSError | Refused]]:
        """And why some have none at the moment."""
        groups: dict[Address, list[Handle]] = {}
        troubles: list[OSError | Refused] = []
        for handle in handles:
            try:
                groups.setdefault(self._coordinator(handle.transactional_id), []).append(handle)
            except Refused as error:
                if error.code not in RETRIABLE:
                    raise
                troubles.append(error)
        return list(groups.items()), troubles

    def _coordinator(self, transactional_id: str) -> Address:
        known = self._coordinators.get(transactional_id)
        if known is not None:
            return known
        if not self._brokers:
            self._described(metadata(()))
        answer = self._any(find_coordinator(transactional_id))
        self._checked(answer, answer.error, transactional_id)
        self._coordinators[transactional_id] = answer.address
        return answer.address

    def _checked(self, answer: Answer, error: int, transactional_id: str) -> Answer:
        if error:
            if error in RETRIABLE:
                self._coordinators.pop(transactional_id, None)
            raise Refused(error, transactional_id)
        return answer

    def _drop(self, address: Address) -> None:
        """What this broker coordinated may be elsewhere by now, also if others still say that it is there."""
        super()._drop(address)
        self._coordinators = {one: at for one, at in self._coordinators.items() if at != address}


def words(code: int) -> str:
    """An error code for people, with what it means for a transaction that was to be committed."""
    match code:
        case Code.PRODUCER_FENCED | Code.INVALID_PRODUCER_EPOCH:
            meaning = "it was aborted: its time ran out, or somebody initialised its id again"
        case Code.INVALID_TXN_STATE:
            meaning = "it was aborted or never had a record"
        case Code.INVALID_PRODUCER_ID_MAPPING | Code.TRANSACTIONAL_ID_NOT_FOUND:
            meaning = "the cluster has forgotten it"
        case _:
            return name_of(code)
    return f"{name_of(code)}: {meaning}"
