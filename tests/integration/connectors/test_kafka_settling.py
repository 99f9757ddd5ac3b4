"""Between the barrier and the acknowledgement: rows of one checkpoint are on their way while those of the next are written."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.integration.connectors.kafka_sink_kit import HandSink, sink_node, values
from tests.servers.kafka import Broker, kafka_broker

from tidegate.connectors.kafka.sink import producer
from tidegate.model.errors import TidegateError, Unavailable
from tidegate.model.ids import Attempt, CheckpointId


def test_rows_of_the_next_checkpoint_do_not_wait_for_those_of_the_last(
    kafka: Broker, topic: str, hand: HandSink
) -> None:
    """T6: one that failed takes nothing with it, its transaction is settled with the next one."""
    hand.write("a")
    first = hand.seal(1)
    hand.write("b")
    second = hand.seal(2)
    hand.write("c")
    hand.writer().settle(CheckpointId(2))
    hand.commit(2, first + second)
    assert values(kafka, topic, 2) == ["a", "b"]
    hand.commit(3, hand.prepare(3))
    assert values(kafka, topic, 3) == ["a", "b", "c"]


def test_a_checkpoint_settles_what_was_prepared_for_it_and_nothing_later(hand: HandSink) -> None:
    hand.write("a")
    hand.seal(1)
    hand.write("b")
    hand.seal(2)
    hand.writer().settle(CheckpointId(1))
    assert [one.checkpoint for one in hand.writer()._settling._sealed] == [2]


def test_after_rows_that_did_not_arrive_nothing_more_is_taken(kafka: Broker, topic: str, hand: HandSink) -> None:
    """T9: a successor has swept. Neither the checkpoint nor a later one may count on rows that the brokers refused."""
    hand.write("fenced")
    hand.writer()._current.producer.flush()  # type: ignore[union-attr]
    HandSink(hand.node, attempt=2).committer.sweep(Attempt(2), ())
    hand.write("after the fence")
    hand.seal(1)
    with pytest.raises(TidegateError):
        hand.writer().settle(CheckpointId(1))
    with pytest.raises(TidegateError):
        hand.write("more")
    with pytest.raises(TidegateError):
        hand.seal(2)
    with pytest.raises(TidegateError):
        hand.writer().settle(CheckpointId(2))
    assert values(kafka, topic, 1, seconds=0.5) == []


def test_a_closed_writer_leaves_no_transaction_open(kafka: Broker, topic: str, hand: HandSink) -> None:
    """Not settled, so named by no checkpoint: readers of committed rows need not wait for its timeout."""
    hand.write("sealed")
    hand.writer()._current.producer.flush()  # type: ignore[union-attr]
    hand.seal(1)
    hand.write("current")
    hand.writer()._current.producer.flush()  # type: ignore[union-attr]
    assert len(hand.wire.open_ids(hand.names.prefix)) == 2
    hand.close()
    assert hand.wire.open_ids(hand.names.prefix) == ()
    after = HandSink(hand.node, attempt=2)
    after.write("after")
    after.commit(1, after.prepare(1))
    assert values(kafka, topic, 1) == ["after"]
    after.close()


def test_closing_ends_the_waiting_for_brokers_that_are_gone(tmp_path: Path) -> None:
    with kafka_broker(tmp_path / "broker", session_ms=2_000) as broker:
        hand = HandSink(sink_node(broker, broker.topic()))
        hand.write("first")
        broker.kill()
        hand.seal(1)
        said: list[str] = []

        def settle() -> None:
            with pytest.raises(Unavailable) as caught:
                hand.writer().settle(CheckpointId(1))
            said.append(caught.value.message)

        background = threading.Thread(target=settle)
        background.start()
        hand.close()
        background.join(producer.PATIENCE_SECONDS / 2)
        assert not background.is_alive()
        assert said and "closed" in said[0]
