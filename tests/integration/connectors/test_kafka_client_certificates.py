"""Brokers that let in only who shows a certificate: source, sink and the end of its transactions, by one set of options."""

from __future__ import annotations

from typing import Any

import pytest
from tests.integration.connectors import kafka_reading
from tests.integration.connectors.kafka_sink_kit import HandSink, sink_node, values
from tests.nodes import ByNode
from tests.servers.certificates import Certificate
from tests.servers.kafka import Broker

from tidegate.connectors.kafka.format import enumerator
from tidegate.model.errors import TidegateError

CONNECTORS = ByNode()


def trusting(kafka: Broker) -> dict[str, Any]:
    stores = {"kafka_ssl_truststore_type": "PEM", "kafka_ssl_truststore_location": str(kafka.certificate.trusted)}
    return {"kafka_security_protocol": "SSL", "kafka_bootstrap_servers": kafka.mutual_bootstrap, **stores}


def in_one_file(certificate: Certificate) -> dict[str, str]:
    return {"kafka_ssl_keystore_type": "PEM", "kafka_ssl_keystore_location": str(certificate.secret)}


def in_options(certificate: Certificate) -> dict[str, str]:
    text = certificate.secret.read_text()
    key, mark, rest = text.partition("-----BEGIN CERTIFICATE-----")
    return {"kafka_ssl_keystore_key": key, "kafka_ssl_keystore_certificate_chain": mark + rest}


@pytest.mark.parametrize("shown", [in_one_file, in_options])
def test_who_shows_a_certificate_reads_and_writes(kafka: Broker, shown: Any) -> None:
    topic = kafka.topic()
    options = trusting(kafka) | shown(kafka.client_certificate)
    node = sink_node(kafka.mutual_bootstrap, topic, pipeline=topic, **options)
    CONNECTORS.committer(node)
    hand = HandSink(node)
    hand.write("secret")
    hand.commit(1, hand.prepare(1))
    hand.close()
    assert values(kafka, topic, 1) == ["secret"]
    reading = kafka_reading.Reading(kafka_reading.kafka_scan(kafka, subscribe=topic, **options))
    assert kafka_reading.values(reading.until_finished()) == ["secret"]
    reading.stop()


def test_who_shows_none_is_told_so_at_the_start(kafka: Broker) -> None:
    topic = kafka.topic()
    with pytest.raises(TidegateError, match="certificate"):
        CONNECTORS.committer(sink_node(kafka.mutual_bootstrap, topic, **trusting(kafka)))
    with pytest.raises(TidegateError, match="certificate"):
        enumerator(kafka_reading.kafka_scan(kafka, subscribe=topic, **trusting(kafka)), kafka_reading.ENDLESS).check()
