"""Options ``kafka.*`` as the client library understands them, and what the client says as typed errors.

Users write the names of Kafka's Java client, as for Spark: they are translated. Names of librdkafka are taken as they are.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from tidegate.model.errors import InvalidQuery, TidegateError, Unavailable

log = logging.getLogger("tidegate.connectors.kafka")

PREFIX = "kafka."
ClientConfig = dict[str, Any]

_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms": "socket.connection.setup.timeout.ms",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
_WITHOUT_MEANING = frozenset(
    [
        "auto.include.jmx.reporter",
        "client.dns.lookup",
        "default.api.timeout.ms",
        "enable.metrics.push",
        "exclude.internal.topics",
        "max.poll.records",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "security.providers",
        "ssl.enabled.protocols",
        "ssl.protocol",
        "ssl.provider",
        "ssl.keymanager.algorithm",
        "ssl.trustmanager.algorithm",
        "ssl.secure.random.implementation",
    ]
)
"""Of the Java client alone, and nothing that could change results."""
_JAVA_ONLY = frozenset(
    [
        "sasl.client.callback.handler.class",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "security.protocol.class",
        "ssl.engine.factory.class",
        "interceptor.classes",
    ]
)
_PEM = "PEM"
_JAAS_MODULE = re.compile(r"\s*([\w.$]+)\s+required\b(.*);?\s*$", re.DOTALL)
_JAAS_OPTION = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))""")
_AUTHENTICATION = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
    }
)
_AUTHORIZATION = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


def client_config(options: Mapping[str, str], what: str) -> ClientConfig:
    """All options under ``kafka.`` for a client of librdkafka, quiet on stderr. ``what``: for messages, ``kafka source``."""
    java = {name[len(PREFIX) :].lower(): value for name, value in options.items() if name.lower().startswith(PREFIX)}
    if not java.get("bootstrap.servers", "").strip():
        raise InvalidQuery(
            f"the {what} needs the option 'kafka.bootstrap.servers'",
            hint="name some brokers: option('kafka.bootstrap.servers', 'host:9092')",
        )
    config: ClientConfig = {"log_level": 0}
    config |= _login(java, what) | _stores(java, what)
    for name, value in java.items():
        if name in _JAVA_ONLY:
            raise InvalidQuery(
                f"option 'kafka.{name}' of the {what} names a Java class, and no JVM is used here",
                hint="leave it out; librdkafka's own options can be given as kafka.<name>",
            )
        if name not in _WITHOUT_MEANING and not _is_translated(name):
            config[_RENAMED.get(name, name)] = value
    return config


def servers(config: Mapping[str, Any]) -> str:
    return str(config["bootstrap.servers"])


def _is_translated(name: str) -> bool:
    return name == "sasl.jaas.config" or name in (
        "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type", "ssl.keystore.type",
        "ssl.keystore.location", "ssl.keystore.password", "ssl.endpoint.identification.algorithm",
    )  # fmt: skip


def _login(java: Mapping[str, str], what: str) -> ClientConfig:
    """User and password out of ``sasl.jaas.config``, the only place where the Java client has them."""
    jaas = java.get("sasl.jaas.config")
    if not jaas:
        return {}
    module = _JAAS_MODULE.match(jaas)
    options = {
        key: re.sub(r"\\(.)", r"\1", quoted) if quoted else plain
        for key, quoted, plain in _JAAS_OPTION.findall(module[2] if module else "")
    }
    kind = module[1].rpartition(".")[2] if module else ""
    if kind not in ("PlainLoginModule", "ScramLoginModule") or "username" not in options or "password" not in options:
        raise InvalidQuery(
            f"option 'kafka.sasl.jaas.config' of the {what} cannot be used",
            hint='write org.apache.kafka.common.security.plain.PlainLoginModule required username="…" password="…"; '
            "(or scram.ScramLoginModule), or give kafka.sasl.username and kafka.sasl.password",
        )
    return {"sasl.username": options["username"], "sasl.password": options["password"]}


def _stores(java: Mapping[str, str], what: str) -> ClientConfig:
    """Trust and key stores: PEM and PKCS12 files are read by librdkafka, Java's own format is not."""
    config: ClientConfig = {}
    trusted = java.get("ssl.truststore.location")
    if trusted:
        if java.get("ssl.truststore.type", "").upper() != _PEM:
            raise _java_store("ssl.truststore.location", trusted, what, "keytool -exportcert -rfc > ca.pem, then")
        config["ssl.ca.location"] = trusted
    keys = java.get("ssl.keystore.location")
    if keys:
        match java.get("ssl.keystore.type", "").upper():
            case "PEM":
                config |= {"ssl.certificate.location": keys, "ssl.key.location": keys}
            case "PKCS12":
                config["ssl.keystore.location"] = keys
                if java.get("ssl.keystore.password"):
                    config["ssl.keystore.password"] = java["ssl.keystore.password"]
            case _:
                raise _java_store("ssl.keystore.location", keys, what, "type PKCS12 is understood too;")
    algorithm = java.get("ssl.endpoint.identification.algorithm")
    if algorithm is not None:
        config["ssl.endpoint.identification.algorithm"] = algorithm or "none"
    return config


def _java_store(option: str, path: str, what: str, how: str) -> InvalidQuery:
    kind = option.replace("location", "type")
    return InvalidQuery(
        f"option 'kafka.{option}' of the {what} is {path!r}, a store in Java's own format, which only a JVM can read",
        hint=f"{how} give the PEM file with kafka.{kind}=PEM",
    )


class Complaints:
    """What a client complains about in the background (``error_cb``): the reason behind a request that gets no answer."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = threading.Lock()
        self._newest: KafkaError | None = None
        self._refused: KafkaError | None = None
        self._told: set[int] = set()
        self.unreachable = False
        """No broker can be connected to."""

    def __call__(self, error: KafkaError) -> None:
        code = error.code()
        with self._lock:
            if code in _AUTHENTICATION:
                self._refused = error
            self.unreachable |= code == KafkaError._ALL_BROKERS_DOWN
            if code != KafkaError._ALL_BROKERS_DOWN or self._newest is None:
                self._newest = error
            new = code not in self._told
            self._told.add(code)
        if new and code != KafkaError._ALL_BROKERS_DOWN:
            log.warning("the %s has trouble with the broker and keeps trying: %s", self._what, error.str())

    def recovered(self) -> None:
        """A request was answered: whatever comes from now on is news."""
        with self._lock:
            self._newest = self._refused = None
            self.unreachable = False
            self._told.clear()

    @property
    def refused(self) -> KafkaError | None:
        """The broker does not know the user: waiting does not help."""
        return self._refused

    @property
    def reason(self) -> str:
        newest = self._refused or self._newest
        return newest.str() if newest is not None else "no answer"


def unusable(error: KafkaException, what: str) -> InvalidQuery:
    """A client could not even be made: an option that librdkafka does not know, or a value it does not take."""
    text = error.args[0].str() if error.args and isinstance(error.args[0], KafkaError) else str(error)
    return InvalidQuery(
        f"the {what} has an unusable kafka.* option: {text}",
        hint="the options are those of Kafka's Java client or of librdkafka, prefixed with kafka.",
    )


def typed(error: KafkaError, complaints: Complaints, where: str, what: str) -> TidegateError:
    """What a failed request means. ``where``: bootstrap servers; ``what``: ``kafka source``."""
    code = error.code()
    refused = complaints.refused
    if refused is not None or code in _AUTHENTICATION:
        return InvalidQuery(
            f"the {what} may not log in at {where}: {(refused or error).str()}",
            hint="check kafka.security.protocol, kafka.sasl.mechanism and kafka.sasl.jaas.config",
        )
    if code in _AUTHORIZATION:
        return InvalidQuery(f"the {what} lacks a permission at {where}: {error.str()}", hint="ask for the ACL it names")
    return Unavailable(
        f"the {what} gets no answer from Kafka at {where}: {error.str()} ({complaints.reason})",
        hint="check kafka.bootstrap.servers, the network and the brokers' advertised listeners",
    )
