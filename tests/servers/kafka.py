"""Apache Kafka itself (KRaft, one node) on 127.0.0.1, from Maven's jars.

::

    with kafka_broker(tmp_path) as broker:
        topic = broker.topic(partitions=2)
        ...  # bootstrap.servers = broker.bootstrap
        broker.kill()
        broker.start()
        broker.read(topic, 1_000)
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # pyright: ignore[reportPrivateImportUsage]
from tests.servers.certificates import self_signed
from tests.servers.jars import jars
from tests.servers.processes import accepts, await_up, die_with_parent, free_ports

USER, PASSWORD = "alice", "alice's secret"
"""Known on the SASL listener, by PLAIN and by SCRAM-SHA-256 and -512."""

QUIET = {"log_level": 0}
"""A client that does not write about a dead broker to stderr."""

QUICK_JAVA = ("-XX:TieredStopAtLevel=1",)
"""Fast to start: the quick compiler alone. Not for a broker whose speed is measured."""

UP_SECONDS_MAX = 150.0
_POM = Path(__file__).with_name("kafka-pom.xml")
_LOG4J = """<Configuration status="WARN"><Appenders><Console name="C"><PatternLayout pattern="%d %p %c{1} %m%n"/></Console></Appenders>
<Loggers><Root level="WARN"><AppenderRef ref="C"/></Root></Loggers></Configuration>"""


class Broker:
    """One node, broker and controller in one. Keeps its ports and its data over ``kill`` and ``start``.

    ``joins``: it is a broker alone, number ``node`` of the cluster that this one controls. ``data``: it goes on with a copy of
    what another one had there.
    """

    def __init__(
        self,
        directory: Path,
        properties: Mapping[str, str | int],
        heap: str,
        java: Sequence[str] = QUICK_JAVA,
        *,
        joins: Broker | None = None,
        node: int = 1,
        data: Path | None = None,
    ) -> None:
        self.directory = directory
        self._flags = java
        self.log = directory / "broker.log"
        self._heap = heap
        self._libs = jars("kafka-4.3.1", _POM)
        self._process: subprocess.Popen[bytes] | None = None
        self._names = itertools.count()
        plain, sasl, tls, mutual, controller = free_ports(5)
        self.bootstrap = f"127.0.0.1:{plain}"
        self.sasl_bootstrap = f"127.0.0.1:{sasl}"
        """Security protocol SASL_PLAINTEXT."""
        self.tls_bootstrap = f"127.0.0.1:{tls}"
        """Security protocol SSL, with a certificate that ``certificate.trusted`` vouches for."""
        self.mutual_bootstrap = f"127.0.0.1:{mutual}"
        """The same, for clients that show ``client_certificate``."""
        self._port = plain
        directory.mkdir(parents=True, exist_ok=True)
        self.certificate = self_signed(directory)
        self.client_certificate = self_signed(directory / "client")
        (directory / "log4j2.xml").write_text(_LOG4J)
        self._configuration = directory / "server.properties"
        ports = {"PLAINTEXT": plain, "SASL": sasl, "TLS": tls, "MUTUAL": mutual}
        known = _configuration(directory / "data", ports, controller)
        for listener in ("tls", "mutual"):
            known |= {f"listener.name.{listener}.ssl.keystore.type": "PEM"}
            known |= {f"listener.name.{listener}.ssl.keystore.location": self.certificate.secret}
        known |= {"listener.name.mutual.ssl.client.auth": "required"}
        known |= {"listener.name.mutual.ssl.truststore.type": "PEM"}
        known |= {"listener.name.mutual.ssl.truststore.location": self.client_certificate.trusted}
        self._cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._voters = known["controller.quorum.voters"]
        if joins is not None:
            self._cluster, self._voters = joins._cluster, joins._voters
            known |= {"process.roles": "broker", "node.id": node, "controller.quorum.voters": self._voters}
            known |= {"listeners": _listeners(ports)}
        known |= properties
        self._configuration.write_text("".join(f"{key}={value}\n" for key, value in known.items()))
        if data is None:
            self._format()
        else:
            shutil.copytree(data, directory / "data")
        self._admin: AdminClient | None = None

    @property
    def jars(self) -> Path:
        return self._libs

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker does not run"
        return self._process.pid

    def start(self) -> None:
        """Returns when it answers."""
        self.launch()
        await_up(self.is_up, UP_SECONDS_MAX, "the Kafka broker", self._tail)

    def launch(self) -> None:
        """Does not wait: ``is_up`` says when it answers. It ends with the thread that called this, at the latest."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._java(self._heap), "kafka.Kafka", str(self._configuration)],
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
            )

    def is_up(self) -> bool:
        """RuntimeError if it has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise RuntimeError(f"the Kafka broker has ended; its log ends with\n{self._tail()}")
        return self._process is not None and accepts(self._port)

    def kill(self) -> None:
        """As power failure does it: SIGKILL, no farewell."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        self.kill()
        self._admin = None

    @property
    def admin(self) -> AdminClient:
        """Kept: futures of a client that nobody holds fail."""
        self._admin = self._admin or AdminClient({"bootstrap.servers": self.bootstrap, **QUIET})
        return self._admin

    def topic(
        self, name: str = "", *, partitions: int = 1, replicas: int = 1, config: Mapping[str, str] | None = None
    ) -> str:
        """Makes a topic and returns its name: a fresh one unless given."""
        name = name or f"topic-{next(self._names)}-{uuid.uuid4().hex[:6]}"
        made = self.admin.create_topics([NewTopic(name, partitions, replicas, config=dict(config or {}))])
        made[name].result(90)
        self.await_partitions(name, partitions)
        return name

    def await_partitions(self, topic: str, count: int) -> None:
        """Returns when clients are told of so many, each with a leader: the broker learns a moment later what its controller has made."""
        until = time.monotonic() + UP_SECONDS_MAX
        while True:
            known = self.admin.list_topics(topic, timeout=30).topics[topic].partitions
            if len(known) == count and all(one.leader >= 0 for one in known.values()):
                return
            assert time.monotonic() < until, f"{topic} has the partitions {known}"
            time.sleep(0.01)

    def read(self, topic: str, rows: int, *, seconds: float = 90.0, committed: bool = True) -> list[Message]:
        """The topic from its beginning: waits until ``rows`` messages are there (visibility lags behind a commit), then looks
        whether there are more. Returns what it has when the time is over."""
        with contextlib.closing(Reading(self.bootstrap, topic, committed=committed)) as reading:
            found = reading.until(rows, seconds)
            return found + reading.rest()

    def _java(self, heap: str) -> list[str]:
        flags = [f"-Xmx{heap}", "-Xms64m", "-XX:+UseSerialGC", "-Xshare:auto", *self._flags]
        return ["java", *flags, f"-Dlog4j2.configurationFile={self.directory / 'log4j2.xml'}", "-cp", f"{self._libs}/*"]

    def _format(self) -> None:
        users = [
            argument
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for argument in ("--add-scram", f"{mechanism}=[name={USER},password={PASSWORD}]")
        ]
        done = subprocess.run(
            [
                *self._java("64m"),
                "kafka.tools.StorageTool",
                "format",
                f"--cluster-id={self._cluster}",
                "-c",
                str(self._configuration),
                *users,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=UP_SECONDS_MAX,
        )
        if done.returncode:
            raise RuntimeError(f"Kafka's storage cannot be formatted:\n{done.stdout[-3000:]}")

    def _tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""


class Reading:
    """A consumer of one whole topic, all partitions, from the beginning."""

    def __init__(self, bootstrap: str, topic: str, *, committed: bool = True) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                **QUIET,
                "group.id": f"reading-{uuid.uuid4().hex}",
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 50,
            }
        )
        self._partitions = set(self._consumer.list_topics(topic, 20).topics[topic].partitions)
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in self._partitions])

    def until(self, rows: int, seconds: float) -> list[Message]:
        """Polls until that many messages came or the time is over."""
        found: list[Message] = []
        until = time.monotonic() + seconds
        while len(found) < rows and (left := until - time.monotonic()) > 0:
            found += [message for message in self._consumer.consume(10_000, min(left, 0.2)) if not _checked(message)]
        return found

    def rest(self, seconds: float = 60.0) -> list[Message]:
        """What is there already: reads until every partition says that it is at its end."""
        self._consumer.assign([TopicPartition(p.topic, p.partition, p.offset) for p in self._positions()])
        found: list[Message] = []
        ended: set[int] = set()
        until = time.monotonic() + seconds
        while ended != self._partitions and (left := until - time.monotonic()) > 0:
            for message in self._consumer.consume(10_000, min(left, 0.2)):
                if _checked(message):
                    ended.add(message.partition() or 0)
                else:
                    found.append(message)
        return found

    def close(self) -> None:
        self._consumer.close()

    def _positions(self) -> list[TopicPartition]:
        at = self._consumer.position(self._consumer.assignment())
        return [TopicPartition(p.topic, p.partition, max(p.offset, 0)) for p in at]


@contextlib.contextmanager
def kafka_broker(
    directory: Path,
    *,
    properties: Mapping[str, str | int] | None = None,
    heap: str = "256m",
    session_ms: int = 3_000,
    java: Sequence[str] = QUICK_JAVA,
    data: Path | None = None,
) -> Iterator[Broker]:
    """A running broker with its data under ``directory``; ``properties`` go over the ones below. It is gone afterwards.

    ``session_ms``: a killed broker comes back only when its old session is over; one that is starved for as long by a busy
    machine is taken for dead.
    """
    session = {"broker.session.timeout.ms": session_ms, "broker.heartbeat.interval.ms": max(100, session_ms // 6)}
    broker = Broker(directory, session | dict(properties or {}), heap, java, data=data)
    try:
        broker.start()
        yield broker
    finally:
        broker.close()


@contextlib.contextmanager
def kafka_cluster(directory: Path, *, brokers: int = 3, session_ms: int = 6_000) -> Iterator[list[Broker]]:
    """Brokers that hold copies of each other's data; the first one is the only controller, and has to live."""
    properties = {
        "broker.session.timeout.ms": session_ms,
        "broker.heartbeat.interval.ms": session_ms // 6,
        "transaction.state.log.replication.factor": brokers,
        "offsets.topic.replication.factor": brokers,
    }
    first = Broker(directory / "1", properties, "192m")
    cluster = [first]
    with ThreadPoolExecutor(brokers) as makers:
        cluster += makers.map(
            lambda node: Broker(directory / f"{node}", properties, "192m", joins=first, node=node),
            range(2, brokers + 1),
        )
    try:
        for broker in cluster:
            broker.launch()
        for broker in cluster:
            await_up(broker.is_up, UP_SECONDS_MAX, "a Kafka broker of several", broker._tail)
        # Each of them answers before the controller counts it.
        registered = lambda: len(first.admin.list_topics(timeout=20).brokers) == brokers  # noqa: E731
        await_up(registered, UP_SECONDS_MAX, "the Kafka cluster", first._tail)
        yield cluster
    finally:
        for broker in cluster:
            broker.close()


def _configuration(data: Path, ports: Mapping[str, int], controller: int) -> dict[str, str | int | Path]:
    protocols = {"SASL": "SASL_PLAINTEXT", "TLS": "SSL", "MUTUAL": "SSL"}
    login = "org.apache.kafka.common.security"
    user = f'user_{USER}="{PASSWORD}"'
    scram = f"{login}.scram.ScramLoginModule required;"
    return {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": _listeners({**ports, "CONTROLLER": controller}),
        "advertised.listeners": _listeners(ports),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocols.get(name, 'PLAINTEXT')}" for name in (*ports, "CONTROLLER")
        ),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.sasl.plain.sasl.jaas.config": f"{login}.plain.PlainLoginModule required {user};",
        "listener.name.sasl.scram-sha-256.sasl.jaas.config": scram,
        "listener.name.sasl.scram-sha-512.sasl.jaas.config": scram,
        # Tokens without a signature, for tests alone: the broker checks their end and their subject.
        "listener.name.sasl.oauthbearer.sasl.jaas.config": f"{login}.oauthbearer.OAuthBearerLoginModule required "
        f'unsecuredLoginStringClaim_sub="{USER}";',
        "log.dirs": data,
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
        "num.network.threads": 2,
        "num.io.threads": 2,
        "log.cleaner.dedupe.buffer.size": 4 << 20,
        "log.cleaner.backoff.ms": 200,
        # Tests write records of other years.
        "log.retention.ms": -1,
        "transaction.max.timeout.ms": 3_600_000,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    }


def _listeners(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())


def _checked(message: Message) -> bool:
    """Whether it only says "end of the partition"."""
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise RuntimeError(f"cannot read: {error.str()}")
    return error is not None
