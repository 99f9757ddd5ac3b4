"""Every option of Kafka's Java client and of librdkafka, and what becomes of it under ``kafka.``: it works, it has no effect, or it is
refused, with the reason. Whatever else a user writes is a mistake."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Flag, auto
from typing import TypeAlias

from tidegate.connectors.kafka.protocol.compression import CODECS
from tidegate.connectors.kafka.protocol.partitioner import Partitioner


class Role(Flag):
    """For whom an option means something."""

    SOURCE = auto()
    SINK = auto()
    BOTH = SOURCE | SINK


@dataclass(frozen=True, slots=True)
class Kind:
    wanted: str
    """For people."""
    takes: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Works:
    name: str
    """Under which the rest of the connector knows it; several names may mean the same."""
    kind: Kind
    role: Role


@dataclass(frozen=True, slots=True)
class WithoutEffect:
    why: str


@dataclass(frozen=True, slots=True)
class Refuses:
    why: str


Meaning: TypeAlias = Works | WithoutEffect | Refuses

_INT_MAX = 2**31 - 1
_TEXT = Kind("a text", lambda _: True)
_FLAG = Kind("true or false", lambda text: text.lower() in ("true", "false"))
_NUMBER = Kind(
    f"a whole number from 0 to {_INT_MAX}", lambda text: text.isascii() and text.isdigit() and int(text) <= _INT_MAX
)
_BYTES = Kind("a number of bytes", lambda text: text.isascii() and text.isdigit())
_LEVEL = Kind("a whole number", lambda text: text.lstrip("-").isdigit())


def _one_of(*words: str) -> Kind:
    return Kind(" or ".join(words), lambda text: text.lower() in words)


_CODEC = _one_of(*CODECS)
_WORKING: tuple[tuple[Role, str, Kind, str], ...] = (
    # for whom, the name here, what it takes, names by which users know it (the name here is one of them unless it is made up)
    (Role.BOTH, "bootstrap.servers", _TEXT, "bootstrap.servers metadata.broker.list"),
    (Role.BOTH, "client.id", _TEXT, "client.id"),
    (Role.BOTH, "security.protocol", _TEXT, "security.protocol"),
    (Role.BOTH, "sasl.mechanism", _TEXT, "sasl.mechanism sasl.mechanisms"),
    (Role.BOTH, "sasl.username", _TEXT, "sasl.username"),
    (Role.BOTH, "sasl.password", _TEXT, "sasl.password"),
    (Role.BOTH, "sasl.oauthbearer.token.function", _TEXT, "sasl.oauthbearer.token.function"),
    (Role.BOTH, "sasl.oauthbearer.config", _TEXT, "sasl.oauthbearer.config"),
    (Role.BOTH, "sasl.oauthbearer.method", _one_of("default", "oidc"), "sasl.oauthbearer.method"),
    (
        Role.BOTH,
        "sasl.oauthbearer.grant.type",
        _one_of("client_credentials"),
        "sasl.oauthbearer.grant.type",
    ),
    (Role.BOTH, "sasl.oauthbearer.token.endpoint.url", _TEXT, "sasl.oauthbearer.token.endpoint.url"),
    (
        Role.BOTH,
        "sasl.oauthbearer.client.id",
        _TEXT,
        "sasl.oauthbearer.client.id sasl.oauthbearer.client.credentials.client.id",
    ),
    (
        Role.BOTH,
        "sasl.oauthbearer.client.secret",
        _TEXT,
        "sasl.oauthbearer.client.secret sasl.oauthbearer.client.credentials.client.secret",
    ),
    (Role.BOTH, "sasl.oauthbearer.scope", _TEXT, "sasl.oauthbearer.scope"),
    (Role.BOTH, "sasl.oauthbearer.extensions", _TEXT, "sasl.oauthbearer.extensions"),
    (Role.BOTH, "ssl.ca.location", _TEXT, "ssl.ca.location"),
    (Role.BOTH, "ssl.ca.pem", _TEXT, "ssl.ca.pem ssl.truststore.certificates"),
    (Role.BOTH, "ssl.certificate.location", _TEXT, "ssl.certificate.location"),
    (Role.BOTH, "ssl.certificate.pem", _TEXT, "ssl.certificate.pem ssl.keystore.certificate.chain"),
    (Role.BOTH, "ssl.key.location", _TEXT, "ssl.key.location"),
    (Role.BOTH, "ssl.key.pem", _TEXT, "ssl.key.pem ssl.keystore.key"),
    (Role.BOTH, "ssl.key.password", _TEXT, "ssl.key.password"),
    (Role.BOTH, "ssl.crl.location", _TEXT, "ssl.crl.location"),
    (Role.BOTH, "ssl.cipher.suites", _TEXT, "ssl.cipher.suites"),
    (Role.BOTH, "enable.ssl.certificate.verification", _FLAG, "enable.ssl.certificate.verification"),
    (Role.SOURCE, "group.id", _TEXT, "group.id"),
    (Role.SOURCE, "isolation.level", _TEXT, "isolation.level"),
    (Role.SOURCE, "fetch.wait.max.ms", _NUMBER, "fetch.wait.max.ms fetch.max.wait.ms"),
    (Role.SOURCE, "fetch.min.bytes", _NUMBER, "fetch.min.bytes"),
    (Role.SOURCE, "fetch.max.bytes", _NUMBER, "fetch.max.bytes"),
    (Role.SOURCE, "max.partition.fetch.bytes", _NUMBER, "max.partition.fetch.bytes fetch.message.max.bytes"),
    (Role.SOURCE, "queued.max.messages.kbytes", _NUMBER, "queued.max.messages.kbytes"),
    (Role.SINK, "transaction.timeout.ms", _TEXT, "transaction.timeout.ms"),
    (Role.SINK, "message.max.bytes", _NUMBER, "message.max.bytes max.request.size"),
    (Role.SINK, "batch.size", _NUMBER, "batch.size"),
    (Role.SINK, "queue.buffering.max.messages", _NUMBER, "queue.buffering.max.messages"),
    (Role.SINK, "queue.buffering.max.kbytes", _NUMBER, "queue.buffering.max.kbytes"),
    (Role.SINK, "buffer.memory", _BYTES, "buffer.memory"),
    (Role.SINK, "compression.type", _CODEC, "compression.type compression.codec"),
    (Role.SINK, "compression.level", _LEVEL, "compression.level"),
    *((Role.SINK, f"compression.{c}.level", _LEVEL, f"compression.{c}.level") for c in ("gzip", "lz4", "zstd")),
    (Role.SINK, "partitioner", _one_of(*(one.value for one in Partitioner)), "partitioner"),
    (Role.SINK, "partitioner.ignore.keys", _FLAG, "partitioner.ignore.keys"),
)

_TRANSLATED = (
    "sasl.jaas.config ssl.truststore.location ssl.truststore.password ssl.truststore.type ssl.keystore.type "
    "ssl.keystore.location ssl.keystore.password ssl.endpoint.identification.algorithm"
)
"""Taken apart by ``options``: what they mean depends on each other."""

_NOTHING: dict[str, str] = {
    "a batch leaves at once when none is on its way to its partition, and otherwise when it is full": (
        "linger.ms queue.buffering.max.ms batch.num.messages sticky.partitioning.linger.ms "
        "queue.buffering.backpressure.threshold queuing.strategy topic.metadata.propagation.max.ms"
    ),
    "messages are sent again until the attempt is given up, and their order is always kept": (
        "retries message.send.max.retries retry.backoff.ms retry.backoff.max.ms delivery.timeout.ms message.timeout.ms "
        "request.timeout.ms max.block.ms max.in.flight max.in.flight.requests.per.connection enable.gapless.guarantee "
        "partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms metadata.max.idle.ms "
        "socket.max.fails default.api.timeout.ms fetch.error.backoff.ms"
    ),
    "Tidegate's client decides by itself when to connect, how long to wait and what to ask again": (
        "reconnect.backoff.ms reconnect.backoff.max.ms reconnect.backoff.jitter.ms socket.timeout.ms "
        "socket.connection.setup.timeout.ms socket.connection.setup.timeout.max.ms socket.blocking.max.ms "
        "connections.max.idle.ms api.version.request api.version.request.timeout.ms api.version.fallback.ms "
        "broker.version.fallback broker.address.ttl broker.address.family client.dns.lookup socket.keepalive.enable "
        "socket.nagle.disable socket.receive.buffer.bytes socket.send.buffer.bytes receive.buffer.bytes "
        "send.buffer.bytes message.copy.max.bytes receive.message.max.bytes metadata.max.age.ms "
        "metadata.recovery.strategy metadata.recovery.rebootstrap.trigger.ms topic.metadata.refresh.interval.ms "
        "topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.fast.cnt topic.metadata.refresh.sparse "
        "topic.blacklist enable.sparse.connections metadata.request.timeout.ms allow.auto.create.topics sasl.login.connect.timeout.ms sasl.login.read.timeout.ms "
        "sasl.login.retry.backoff.ms sasl.login.retry.backoff.max.ms sasl.login.refresh.buffer.seconds "
        "sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter"
    ),
    "partitions are given to slots by Tidegate, and no consumer group is joined": (
        "session.timeout.ms heartbeat.interval.ms max.poll.interval.ms max.poll.records partition.assignment.strategy "
        "group.instance.id group.protocol group.protocol.type group.remote.assignor coordinator.query.interval.ms "
        "internal.leave.group.on.close exclude.internal.topics auto.commit.enable auto.commit.interval.ms offset.store.method "
        "offset.store.path offset.store.sync.interval.ms consume.callback.max.messages produce.offset.report "
        "share.acknowledgement.mode share.acquire.mode"
    ),
    "partitions are read from their leaders, as fast as slots take the rows": (
        "client.rack queued.min.messages fetch.queue.backoff.ms"
    ),
    "checksums are always checked": "check.crcs",
    "Tidegate has its own log and its own metrics": (
        "auto.include.jmx.reporter enable.metrics.push metric.reporters metrics.num.samples metrics.recording.level "
        "metrics.sample.window.ms statistics.interval.ms debug log_level log.queue log.thread.name "
        "log.connection.close enable.random.seed builtin.features client.software.name"
    ),
    "the broker looks into tokens, not the client": (
        "sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer "
        "sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwks.endpoint.refresh.ms "
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms "
        "sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name sasl.oauthbearer.header.urlencode"
    ),
    "TLS is that of Python's ssl": (
        "security.providers ssl.enabled.protocols ssl.protocol ssl.provider ssl.keymanager.algorithm "
        "ssl.trustmanager.algorithm ssl.secure.random.implementation ssl.ca.certificate.stores"
    ),
}

_JVM = "names a Java class, and no JVM is used here"
_NO: dict[str, str] = {
    _JVM: (
        "sasl.client.callback.handler.class sasl.login.callback.handler.class sasl.login.class security.protocol.class "
        "ssl.engine.factory.class interceptor.classes"
    ),
    "cannot be followed by Python's ssl": (
        "ssl.curves.list ssl.sigalgs.list ssl.engine.location ssl.engine.id ssl.providers https.ca.location https.ca.pem"
    ),
    "is for Kerberos, which Tidegate cannot log in by": (
        "sasl.kerberos.service.name sasl.kerberos.principal sasl.kerberos.kinit.cmd sasl.kerberos.keytab "
        "sasl.kerberos.min.time.before.relogin sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor"
    ),
    "is not built: give a function that returns a token, by kafka.sasl.oauthbearer.token.function": (
        "enable.sasl.oauthbearer.unsecure.jwt sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.file "
        "sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds "
        "sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include "
        "sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub "
        "sasl.oauthbearer.assertion.jwt.template.file sasl.oauthbearer.assertion.private.key.file "
        "sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.private.key.pem "
        "sasl.oauthbearer.metadata.authentication.type sasl.oauthbearer.metadata.authentication.query "
        "sasl.oauthbearer.assertion.template.file sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class"
    ),
    "is for code inside another client library": (
        "plugin.library.paths enabled_events internal.termination.signal open_cb socket_cb log_cb enable_sasl_queue "
        "test.mock.broker.rtt test.mock.num.brokers config.providers"
    ),
    "is the sink's own: the driver ends transactions": "transaction.two.phase.commit.enable",
}


def _table() -> dict[str, Meaning]:
    found: dict[str, Meaning] = {}
    for role, name, kind, known_as in _WORKING:
        found |= dict.fromkeys(known_as.split(), Works(name, kind, role))
    for why, names in _NOTHING.items():
        found |= dict.fromkeys(names.split(), WithoutEffect(why))
    for why, names in _NO.items():
        found |= dict.fromkeys(names.split(), Refuses(why))
    return found


DECIDED = {
    Role.SOURCE: frozenset(
        [
            "auto.offset.reset",
            "enable.auto.commit",
            "enable.auto.offset.store",
            "enable.partition.eof",
            "key.deserializer",
            "value.deserializer",
        ]
    ),
    Role.SINK: frozenset(
        [
            "transactional.id",
            "enable.idempotence",
            "acks",
            "request.required.acks",
            "delivery.report.only.error",
            "key.serializer",
            "value.serializer",
            "partitioner.class",
        ]
    ),
}
"""Refused by the source and by the sink themselves, each with a reason of its own."""
TABLE: dict[str, Meaning] = _table()
TRANSLATED = frozenset(_TRANSLATED.split())
