"""Servers that targets of golden queries stand in: what is in them is kept beside a location and brought back before it goes on."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.golden.connectors import KAFKA_ROWS, Servers, produce
from tests.golden.world import PLACE
from tests.servers.kafka import Broker, kafka_broker
from tests.servers.postgres import Server, binaries, postgres_server

FOR_EVER = {"transactional.id.expiration.ms": 2**31 - 1, "producer.id.expiration.ms": 2**31 - 1}
"""Brokers of today remember what was written years ago."""


_DERIVED = shutil.ignore_patterns("*.index", "*.timeindex", ".lock")
"""A broker makes them again; each has 10 MB."""


class Running:
    """No server."""

    addresses = Servers()

    def prepare(self) -> None:
        """Before the golden query starts."""

    def save(self, directory: Path) -> None:
        """What the server holds, into files there."""

    def more(self) -> None:
        """Input that comes after the golden checkpoint."""


class Postgres(Running):
    def __init__(self, server: Server) -> None:
        self._server = server
        self.addresses = Servers(postgres=server.database())

    def save(self, directory: Path) -> None:
        dump = [binaries() / "pg_dump", "--inserts", "--rows-per-insert=1000", "--no-owner", self.addresses.postgres]
        (directory / "postgres.sql").write_bytes(subprocess.run(dump, check=True, stdout=subprocess.PIPE).stdout)

    def prepare(self) -> None:
        kept = PLACE / "postgres.sql"
        if kept.exists():
            psql = [binaries() / "psql", "-q", "-v", "ON_ERROR_STOP=1", "-f", kept, self.addresses.postgres]
            subprocess.run(psql, check=True, stdout=subprocess.DEVNULL)


class Kafka(Running):
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.addresses = Servers(kafka=broker.bootstrap)

    def prepare(self) -> None:
        for topic in ("golden-in", "golden-out"):
            self._broker.topic(topic, partitions=2)
        produce(self.addresses.kafka, range(KAFKA_ROWS))

    def save(self, directory: Path) -> None:
        self._broker.pause()
        shutil.copytree(self._broker.directory / "data", directory / "kafka", ignore=_DERIVED)
        self._broker.resume()

    def more(self) -> None:
        produce(self.addresses.kafka, range(KAFKA_ROWS, 2 * KAFKA_ROWS))


class KeptKafka(Kafka):
    def prepare(self) -> None:
        """Its topics were there when it started."""


@contextmanager
def running(kind: str) -> Iterator[Running]:
    """A server for the case; one that stands on what ``Running.save`` has left in the place, if there is any."""
    kept = PLACE / "kafka"
    match kind:
        case "postgres":
            with postgres_server() as server:
                yield Postgres(server)
        case "kafka":
            with tempfile.TemporaryDirectory(prefix="tidegate-kafka-") as directory:
                data = kept if kept.exists() else None
                with kafka_broker(Path(directory), properties=FOR_EVER, session_ms=30_000, data=data) as broker:
                    yield Kafka(broker) if data is None else KeptKafka(broker)
        case _:
            yield Running()
