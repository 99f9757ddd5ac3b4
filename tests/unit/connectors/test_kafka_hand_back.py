"""One coordinator that does not answer holds up no transaction of another one, and makes none be ended again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.unit.connectors.test_kafka_publication_notes import Cluster, Driver

from tidegate.connectors.kafka.client.transactions import Ends, Transactions
from tidegate.connectors.kafka.protocol.errors import Code, Refused
from tidegate.connectors.kafka.protocol.requests import Address
from tidegate.connectors.kafka.protocol.transactions import Handle
from tidegate.connectors.kafka.sink.names import decode
from tidegate.model.errors import CorruptSnapshot, Unavailable
from tidegate.model.snapshot import HandedBack

HERE, THERE, NOWHERE = (Handle(name, 1, 0) for name in ("here", "there", "nowhere"))
AWAY = Unavailable("the coordinator does not answer")


class Brokers(Transactions):
    """A coordinator for each transactional id. ``away``: those that refuse connections; ``codes``: what the others answer, once."""

    def __init__(self) -> None:
        super().__init__({"bootstrap.servers": "nobody:1"}, patience_s=0.1)
        self.away: set[str] = set()
        self.codes: dict[str, list[int]] = {}
        self.ended: list[str] = []

    def _coordinator(self, transactional_id: str) -> Address:
        if transactional_id == "nowhere":
            raise Refused(Code.COORDINATOR_NOT_AVAILABLE, transactional_id)
        return Address(transactional_id, 1)

    def _ask_all(self, address: Address, requests: Sequence[Any]) -> list[Any]:
        if address.host in self.away:
            raise ConnectionRefusedError(f"{address} is away")
        self.ended.append(address.host)
        codes = self.codes.get(address.host, [])
        return [codes.pop(0) if codes else 0 for _ in requests]


def test_transactions_with_a_coordinator_are_ended_once_whatever_becomes_of_the_others() -> None:
    brokers = Brokers()
    brokers.away = {"there"}
    ends = brokers.end_all([THERE, NOWHERE, HERE], commit=True)
    assert set(ends.unanswered) == {THERE, NOWHERE}
    assert ends.refused == {}
    assert ends.trouble is not None
    assert "there:1 is away" in ends.trouble.message or "nowhere" in ends.trouble.message
    assert brokers.ended == ["here"], "asked again and again was only who had not answered"


def test_one_that_says_later_is_asked_again_and_one_that_refuses_is_not() -> None:
    brokers = Brokers()
    brokers.codes = {"here": [Code.CONCURRENT_TRANSACTIONS, Code.NONE], "there": [Code.INVALID_TXN_STATE]}
    assert brokers.end_all([HERE, THERE], commit=True) == Ends({THERE: Code.INVALID_TXN_STATE})
    assert brokers.ended == ["here", "there", "here"]


def test_a_refusal_to_look_for_a_coordinator_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers()

    def refuse(transactional_id: str) -> Address:
        raise Refused(Code.UNSUPPORTED_VERSION, transactional_id)

    monkeypatch.setattr(brokers, "_coordinator", refuse)
    with pytest.raises(Refused):
        brokers.end_all([HERE], commit=True)


class Partly(Cluster):
    """``silent``: transactional ids whose coordinator does not answer."""

    def __init__(self) -> None:
        super().__init__()
        self.silent: set[str] = set()
        self.lost: set[str] = set()
        self.ended: list[str] = []

    def end_all(self, handles: Sequence[Handle], *, commit: bool) -> Ends:
        unanswered = tuple(one for one in handles if one.transactional_id in self.silent)
        lost = {one: int(Code.INVALID_TXN_STATE) for one in handles if one.transactional_id in self.lost}
        self.ended += [one.transactional_id for one in handles if one not in unanswered]
        return Ends(lost, unanswered, AWAY if unanswered else None)


def test_the_committer_hands_back_what_was_not_ended_and_all_of_later_checkpoints() -> None:
    cluster = Partly()
    driver = Driver(cluster)
    one, two, later = driver.prepared(2, 7, k=0), driver.prepared(2, 7, k=1), driver.prepared(2, 8, k=2)
    names = [decode(each.payload).transactional_id for each in (one, two, later)]
    cluster.silent = {names[0]}
    assert driver.committer.commit((later, two, one)) == HandedBack((one, later), AWAY)
    assert cluster.ended == [names[1]], "nothing of a later checkpoint is ended before what was handed back"
    cluster.silent = set()
    assert driver.committer.commit((one, later)) is None
    assert cluster.ended == [names[1], names[0], names[2]]
    assert driver.committer.commit((one, two, later)) is None
    assert len(cluster.ended) == 3


def test_a_cluster_that_is_away_is_an_error_and_lost_output_is_one_too() -> None:
    cluster = Partly()
    driver = Driver(cluster)
    one, two = driver.prepared(2, 7, k=0), driver.prepared(2, 7, k=1)
    names = {decode(each.payload).transactional_id for each in (one, two)}
    cluster.silent = names
    with pytest.raises(Unavailable, match="does not answer"):
        driver.committer.commit((one, two))
    cluster.silent, cluster.lost = {decode(two.payload).transactional_id}, {decode(one.payload).transactional_id}
    with pytest.raises(CorruptSnapshot, match="is lost"):
        driver.committer.commit((one, two))
