"""The broker itself dies by SIGKILL while the sink is at work."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.connectors.kafka_sink_kit import HandSink, sink_node, values
from tests.servers.kafka import kafka_broker

from tidegate.connectors.kafka.client.transactions import Transactions
from tidegate.model.errors import Unavailable


def test_a_broker_that_dies_loses_and_doubles_nothing(tmp_path: Path) -> None:
    with kafka_broker(tmp_path / "broker", session_ms=2_000) as broker:
        topic = broker.topic(partitions=2)
        hand = HandSink(sink_node(broker, topic))
        hand.write("prepared before")
        first = hand.prepare(1)
        hand.write("open meanwhile")
        broker.kill()
        hand.write("written while it was down")
        hand.committer._wire = Transactions(hand.config.client, patience_s=0.5)
        with pytest.raises(Unavailable, match="does not answer"):
            hand.committer.commit(first)
        broker.start()
        hand.committer._wire = Transactions(hand.config.client)
        hand.commit(1, first)
        hand.commit(2, hand.prepare(2))
        assert values(broker, topic, 3) == ["open meanwhile", "prepared before", "written while it was down"]
        hand.close()
