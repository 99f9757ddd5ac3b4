"""Logging in by a token, and by a certificate in a PKCS12 store: source, sink and the end of its transactions, by one set of options."""

from __future__ import annotations

import http.server
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from tests.integration.connectors import kafka_reading
from tests.integration.connectors.kafka_sink_kit import HandSink, sink_node, values
from tests.integration.connectors.kafka_tokens import token_of
from tests.integration.connectors.test_kafka_client_certificates import trusting
from tests.nodes import ByNode
from tests.servers.certificates import Certificate
from tests.servers.kafka import USER, Broker

from tidegate.connectors.kafka.format import enumerator
from tidegate.model.errors import InvalidQuery, TidegateError, Unavailable

CONNECTORS = ByNode()
TOKENS = "tests.integration.connectors.kafka_tokens"
GUARANTEES = ("exactly_once", "at_least_once")


def bearer(kafka: Broker, **options: str) -> dict[str, Any]:
    login = {"kafka_security_protocol": "SASL_PLAINTEXT", "kafka_sasl_mechanism": "OAUTHBEARER"}
    return {"kafka_bootstrap_servers": kafka.sasl_bootstrap} | login | options


def by_function(kafka: Broker, name: str, **options: str) -> dict[str, Any]:
    return bearer(kafka, kafka_sasl_oauthbearer_token_function=f"{TOKENS}:{name}", **options)


def writes_and_reads(kafka: Broker, options: dict[str, Any]) -> None:
    topic = kafka.topic()
    node = sink_node(options["kafka_bootstrap_servers"], topic, pipeline=topic, **options)
    CONNECTORS.committer(node)
    hand = HandSink(node)
    hand.write("secret")
    hand.commit(1, hand.prepare(1))
    hand.close()
    assert values(kafka, topic, 1) == ["secret"]
    reading = kafka_reading.Reading(kafka_reading.kafka_scan(kafka, subscribe=topic, **options))
    assert kafka_reading.values(reading.until_finished()) == ["secret"]
    reading.stop()


def refused(kafka: Broker, options: dict[str, Any], kind: type[TidegateError], words: str) -> None:
    """At the start, by source and sink."""
    topic = kafka.topic()
    for guarantee in GUARANTEES:
        node = sink_node(kafka.sasl_bootstrap, topic, deliveryGuarantee=guarantee, **options)
        with pytest.raises(kind, match=words):
            CONNECTORS.committer(node)
    with pytest.raises(kind, match=words):
        enumerator(kafka_reading.kafka_scan(kafka, subscribe=topic, **options), kafka_reading.ENDLESS).check()


@pytest.mark.parametrize("config", ["", USER])
def test_a_function_of_the_user_returns_the_token(kafka: Broker, config: str) -> None:
    writes_and_reads(kafka, by_function(kafka, "token", **{"kafka_sasl_oauthbearer_config": config} if config else {}))


def test_a_token_that_the_broker_does_not_take_is_said_at_start(kafka: Broker) -> None:
    refused(kafka, by_function(kafka, "expired"), InvalidQuery, "invalid_token|expire")


@pytest.mark.parametrize(
    ("name", "words"), [("missing", "cannot be imported"), ("nothing", "returned NoneType instead of a token")]
)
def test_a_function_that_gives_no_token_is_said_at_start(kafka: Broker, name: str, words: str) -> None:
    refused(kafka, by_function(kafka, name), InvalidQuery, words)


class Issuer:
    """An OAuth 2 server that knows one client."""

    def __init__(self, address: str) -> None:
        self.url = f"http://{address}/token"
        self.asked: list[dict[str, str]] = []


@contextmanager
def issuing(status: int = 200) -> Iterator[Issuer]:
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            issuer.asked.append({"body": body, "who": self.headers["Authorization"]})
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps({"access_token": token_of(USER), "expires_in": 3_600}).encode())

        def log_message(self, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    issuer = Issuer(f"127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_server_issues_the_token_to_a_client_with_a_secret(kafka: Broker) -> None:
    jaas = (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'clientId="tidegate" clientSecret="hush" scope="kafka";'
    )
    with issuing() as issuer:
        by_java = {"kafka_sasl_jaas_config": jaas, "kafka_sasl_oauthbearer_token_endpoint_url": issuer.url}
        writes_and_reads(kafka, bearer(kafka, **by_java))
        assert issuer.asked[0] == {
            "body": "grant_type=client_credentials&scope=kafka",
            "who": "Basic dGlkZWdhdGU6aHVzaA==",
        }
    with issuing(401) as issuer:
        by_java["kafka_sasl_oauthbearer_token_endpoint_url"] = issuer.url
        refused(kafka, bearer(kafka, **by_java), InvalidQuery, "issues no token for Kafka")
    refused(kafka, bearer(kafka, **by_java), Unavailable, "issues no token for Kafka")


def test_without_a_way_to_a_token_nothing_is_tried() -> None:
    node = sink_node("127.0.0.1:9", "any", kafka_security_protocol="SASL_PLAINTEXT", kafka_sasl_mechanism="OAUTHBEARER")
    with pytest.raises(InvalidQuery, match=r"kafka\.sasl\.oauthbearer\.token\.function"):
        CONNECTORS.sink(node)


def pkcs12_of(certificate: Certificate, path: Path, password: str) -> Path:
    text = certificate.secret.read_bytes()
    key, shown = serialization.load_pem_private_key(text, None), x509.load_pem_x509_certificate(text)
    secret = serialization.BestAvailableEncryption(password.encode())
    path.write_bytes(pkcs12.serialize_key_and_certificates(b"tidegate", key, shown, None, secret))  # pyright: ignore[reportArgumentType]
    return path


def test_a_certificate_may_come_from_a_pkcs12_store(kafka: Broker, tmp_path: Path) -> None:
    store = pkcs12_of(kafka.client_certificate, tmp_path / "keys.p12", "opensesame")
    options = trusting(kafka) | {
        "kafka_ssl_keystore_type": "PKCS12",
        "kafka_ssl_keystore_location": str(store),
        "kafka_ssl_keystore_password": "opensesame",
    }
    writes_and_reads(kafka, options)
    topic = kafka.topic()
    with pytest.raises(InvalidQuery, match="certificates of the Kafka options cannot be used"):
        CONNECTORS.committer(
            sink_node(kafka.mutual_bootstrap, topic, **options | {"kafka_ssl_keystore_password": "guessed"})
        )


def test_without_the_package_that_reads_it_the_way_to_pem_is_said(
    kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    stores = {"kafka_ssl_keystore_type": "PKCS12", "kafka_ssl_keystore_location": str(tmp_path / "keys.p12")}
    node = sink_node(kafka.mutual_bootstrap, "any", **trusting(kafka) | stores)
    with pytest.raises(InvalidQuery, match="needs the package 'cryptography'") as raised:
        CONNECTORS.sink(node)
    assert "openssl pkcs12 -in keys.p12" in raised.value.hint
