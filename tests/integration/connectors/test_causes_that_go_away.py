"""Users, topics, tables and stores that are taken away under a sink and come back: one clear error meanwhile, every row afterwards."""

from __future__ import annotations

import secrets
from copy import copy
from pathlib import Path

import pytest
from confluent_kafka.admin import (  # pyright: ignore[reportPrivateImportUsage]
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from tests.integration.connectors import postgres_sinks
from tests.integration.connectors.kafka_reading import eventually
from tests.integration.connectors.kafka_sink_kit import HandSink, sink_node, values
from tests.integration.connectors.lake_tables import committer, numbers, table_sink, visible, writer, wrote
from tests.integration.connectors.test_lake_on_s3 import IcebergOnS3
from tests.servers.kafka import Broker
from tests.servers.postgres import Server
from tests.servers.proxy import proxy_to
from tests.servers.s3 import S3Server

from tidegate.connectors.kafka.client import leaders
from tidegate.connectors.kafka.sink.producer import PATIENCE_SECONDS
from tidegate.model.errors import InvalidQuery, TidegateError, Unavailable
from tidegate.model.ids import Attempt

SECONDS_MAX = 60.0


def test_a_kafka_user_that_is_taken_away_and_given_back(kafka: Broker) -> None:
    user, password, topic = f"bob-{secrets.token_hex(4)}", secrets.token_hex(8), kafka.topic()
    strong = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4_096)
    given = UserScramCredentialUpsertion(user, strong, password.encode())
    taken = UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256)

    def change(how: UserScramCredentialUpsertion | UserScramCredentialDeletion) -> None:
        kafka.admin.alter_user_scram_credentials([how])[user].result(SECONDS_MAX)

    login = {"kafka_security_protocol": "SASL_PLAINTEXT", "kafka_sasl_mechanism": "SCRAM-SHA-256"}
    login |= {"kafka_sasl_username": user, "kafka_sasl_password": password}
    node = sink_node(kafka.sasl_bootstrap, topic, pipeline=topic, **login)
    change(given)
    first = HandSink(node)
    first.write("owed")
    owed = first.prepare(1)
    change(taken)

    def refused() -> bool:
        """The broker hears of it a moment later."""
        try:
            HandSink(node, 2).wire.check_versions()
        except InvalidQuery as error:
            assert "does not accept the user name and password" in str(error) and password not in str(error)
            return True
        except TidegateError:
            return False
        return False

    eventually(refused, "the user is gone")
    with pytest.raises(InvalidQuery, match="user name and password"):
        HandSink(node, 2).committer.commit(owed)
    change(given)
    eventually(lambda: not refused(), "the user is back")
    HandSink(node, 3).committer.commit(owed)
    assert values(kafka, topic, 1) == ["owed"]
    first.close()


def test_a_kafka_topic_that_is_deleted_and_made_again(kafka: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaders, "APPEAR_SECONDS", 1.0)
    topic = kafka.topic()
    node = sink_node(kafka, topic, pipeline=topic)
    first = HandSink(node)
    first.write("before")
    first.commit(1, first.prepare(1))
    kafka.admin.delete_topics([topic])[topic].result(SECONDS_MAX)
    first.write("meanwhile")
    with pytest.raises(InvalidQuery, match=f"no topic '{topic}'") as raised:
        first.writer()._current.producer.flush(PATIENCE_SECONDS)  # type: ignore[union-attr]
    assert "create the topic" in raised.value.hint
    first.close()
    kafka.topic(topic)
    second = HandSink(node, 2)
    second.committer.sweep(Attempt(2), ())
    second.write("meanwhile")
    second.commit(2, second.prepare(2))
    second.close()
    assert values(kafka, topic, 1) == ["meanwhile"]


@pytest.mark.parametrize("strategy", ["prepared", "staged"])
def test_a_password_of_postgres_that_is_changed_and_changed_back(postgres: Server, strategy: str) -> None:
    url = postgres.database()
    user = f"u{secrets.token_hex(4)}"
    postgres.query(url, f"CREATE USER {user} PASSWORD 'first'")
    postgres.query(url, f"GRANT ALL ON SCHEMA public TO {user}")
    name = url.rpartition("/")[2]
    sink = postgres_sinks.sink_to(postgres.url(name, user=user, password="first"), commitStrategy=strategy)
    to = postgres_sinks.committer(sink)
    owed = postgres_sinks.wrote(sink, postgres_sinks.numbers(1, 2), 1)
    postgres.query(url, f"ALTER USER {user} PASSWORD 'second'")
    with pytest.raises(InvalidQuery, match="password authentication failed") as raised:
        to.commit(owed)
    assert "user and password" in raised.value.hint
    with pytest.raises(InvalidQuery, match="password authentication failed"):
        postgres_sinks.wrote(sink, postgres_sinks.numbers(3), 2)
    postgres.query(url, f"ALTER USER {user} PASSWORD 'first'")
    to.commit(owed)
    to.commit(postgres_sinks.wrote(sink, postgres_sinks.numbers(3), 2, attempt=2))
    assert postgres.query(url, "SELECT n FROM out ORDER BY n") == [(1,), (2,), (3,)]


def test_a_column_of_postgres_that_goes_and_comes_back(postgres: Server) -> None:
    url = postgres.database()
    sink = postgres_sinks.sink_to(url, commitStrategy="staged")
    to = postgres_sinks.committer(sink)
    owed = postgres_sinks.wrote(sink, postgres_sinks.numbers(1), 1)
    postgres.query(url, "ALTER TABLE out RENAME COLUMN n TO m")
    with pytest.raises(InvalidQuery, match=r'column "n"|is not what it was'):
        to.commit(owed)
    postgres.query(url, "ALTER TABLE out RENAME COLUMN m TO n")
    to.commit(owed)
    assert postgres.query(url, "SELECT n FROM out") == [(1,)]


def test_a_table_whose_store_is_cut_off_and_comes_back(s3: S3Server, tmp_path: Path) -> None:
    with proxy_to(s3.port) as proxy:
        away = copy(s3)
        away.endpoint = f"http://127.0.0.1:{proxy.port}"
        table = IcebergOnS3(away, s3.bucket(), tmp_path)
        sink = table_sink(table)
        to, out = committer(sink), writer(sink)
        owed = wrote(out, 1, numbers(1))
        proxy.faults.answer_instead, proxy.faults.times = (b" HTTP/1.1", b""), 1_000_000
        with pytest.raises(Unavailable, match="cannot ") as raised:
            to.commit(owed)
        assert "reachable" in raised.value.hint
        proxy.faults.times = 0
        to.commit(owed)
        to.commit(wrote(writer(sink, attempt=2), 2, numbers(2)))
        assert visible(table) == [1, 2]
