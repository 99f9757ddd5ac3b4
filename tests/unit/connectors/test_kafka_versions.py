"""Brokers that are too old are refused by name, before anything runs. A server that only says what it speaks stands for them."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tidegate.connectors.kafka.client.transactions import Transactions
from tidegate.connectors.kafka.config import parse_kafka
from tidegate.connectors.kafka.source.cluster import Cluster
from tidegate.model.errors import InvalidQuery

# API key → highest version, as these releases of Kafka answer.
KAFKA_2_6 = {0: 8, 1: 11, 2: 5, 3: 9, 8: 8, 9: 7, 10: 3, 18: 3, 22: 3, 24: 1, 26: 1}
KAFKA_2_8 = {0: 9, 1: 12, 2: 6, 3: 11, 8: 8, 9: 7, 10: 3, 18: 3, 22: 4, 24: 3, 26: 3}
KAFKA_0_10 = {0: 2, 1: 2, 2: 0, 3: 2, 8: 2, 9: 1, 10: 0, 18: 0}


@contextmanager
def broker(versions: dict[int, int]) -> Iterator[str]:
    """Answers every request as if it were ApiVersions, version 0. Yields ``host:port``."""
    server = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                while head := connection.recv(4, socket.MSG_WAITALL):
                    request = connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
                    body = request[4:8] + struct.pack(">hi", 0, len(versions))
                    body += b"".join(struct.pack(">hhh", key, 0, highest) for key, highest in versions.items())
                    connection.sendall(struct.pack(">i", len(body)) + body)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.getsockname()[1]}"
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()


@pytest.mark.parametrize(("versions", "what"), [(KAFKA_2_6, "Fetch version 12"), (KAFKA_0_10, "Metadata version 9")])
def test_a_source_refuses_brokers_before_2_7(versions: dict[int, int], what: str) -> None:
    with broker(versions) as address:
        cluster = Cluster(parse_kafka("kafka", {"kafka.bootstrap.servers": address, "subscribe": "t"}))
        for ask in (lambda: cluster.described(["t"]), lambda: cluster.latest([("t", 0)])):
            with pytest.raises(InvalidQuery, match=f"brokers do not know {what}") as raised:
                ask()
            assert "reads from Kafka 2.7 or later" in raised.value.hint
        cluster.close()


def test_a_source_reads_from_brokers_that_know_no_ids_of_topics() -> None:
    without_ids = KAFKA_2_8 | {3: 9}
    with broker(without_ids) as address:
        cluster = Cluster(parse_kafka("kafka", {"kafka.bootstrap.servers": address, "subscribe": "t"}))
        assert cluster._check_versions() == 9
        cluster.close()
    with broker(KAFKA_2_8) as address:
        cluster = Cluster(parse_kafka("kafka", {"kafka.bootstrap.servers": address, "subscribe": "t"}))
        assert cluster._check_versions() == 10
        cluster.close()


def test_exactly_once_output_needs_more_than_at_least_once() -> None:
    with broker(KAFKA_2_8) as address:
        wire = Transactions({"bootstrap.servers": address})
        wire.check_versions_without()
        with pytest.raises(InvalidQuery, match="do not know DescribeTransactions version 0") as raised:
            wire.check_versions()
        assert "needs Kafka 3.0 or later" in raised.value.hint
        wire.close()
    with broker(KAFKA_0_10) as address:
        wire = Transactions({"bootstrap.servers": address})
        with pytest.raises(InvalidQuery, match="do not know InitProducerId version 3") as raised:
            wire.check_versions_without()
        assert "Kafka 2.7 or later" in raised.value.hint
        wire.close()
