"""Options ``kafka.*`` under the names that the rest of the connector knows.

Users write the names of Kafka's Java client, as for Spark, or those of librdkafka: ``option_table`` knows both.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Mapping
from typing import Any

from tidegate.connectors.kafka.option_table import DECIDED, TABLE, TRANSLATED, Refuses, Role, WithoutEffect, Works
from tidegate.model.errors import InvalidQuery

log = logging.getLogger("tidegate.connectors.kafka")

PREFIX = "kafka."
ClientConfig = dict[str, str]

_PEM = "PEM"
_JAAS_MODULE = re.compile(r"\s*([\w.$]+)\s+required\b(.*);?\s*$", re.DOTALL)
_JAAS_OPTION = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))""")
_BEARER_OPTIONS = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
_OTHER_ROLE = {Role.SOURCE: "only a sink knows it", Role.SINK: "only a source knows it"}


def client_config(options: Mapping[str, str], what: str, role: Role, *, warn: bool = False) -> ClientConfig:
    """All options under ``kafka.`` that have an effect, and those that the caller refuses itself. ``what``: for messages, ``kafka
    source``. ``warn``: also says which ones have no effect (once, on the driver)."""
    given = {name[len(PREFIX) :].lower(): value for name, value in options.items() if name.lower().startswith(PREFIX)}
    if not (given.get("bootstrap.servers") or given.get("metadata.broker.list") or "").strip():
        raise InvalidQuery(
            f"the {what} needs the option 'kafka.bootstrap.servers'",
            hint="name some brokers: option('kafka.bootstrap.servers', 'host:9092')",
        )
    config: ClientConfig = {}
    idle: dict[str, list[str]] = {}
    for name, value in given.items():
        match TABLE.get(name):
            case Works(known_as, kind, roles):
                if role not in roles:
                    idle.setdefault(_OTHER_ROLE[role], []).append(name)
                elif not kind.takes(value):
                    raise InvalidQuery(
                        f"option 'kafka.{name}' of the {what} is {value!r}", hint=f"it must be {kind.wanted}"
                    )
                else:
                    config[known_as] = value
            case WithoutEffect(why):
                idle.setdefault(why, []).append(name)
            case Refuses(why):
                raise _refused(name, why, what)
            case None if name in DECIDED[role]:
                config[name] = value
            case None if name in DECIDED[~role & Role.BOTH]:
                idle.setdefault(_OTHER_ROLE[role], []).append(name)
            case None if name not in TRANSLATED:
                raise _unknown(name, what)
            case None:
                pass
    if warn:
        for why, names in idle.items():
            log.warning("the %s has no use for %s: %s", what, ", ".join(f"kafka.{name}" for name in names), why)
    return _login(given, what) | _stores(given, what) | config


def servers(config: Mapping[str, Any]) -> str:
    return str(config["bootstrap.servers"])


def _refused(name: str, why: str, what: str) -> InvalidQuery:
    return InvalidQuery(
        f"option 'kafka.{name}' of the {what} {why}", hint="leave it out: docs/connectors/kafka.md lists what works"
    )


def _unknown(name: str, what: str) -> InvalidQuery:
    near = difflib.get_close_matches(name, [*TABLE, *TRANSLATED], n=1)
    return InvalidQuery(
        f"the {what} does not know the option 'kafka.{name}'",
        hint=f"did you mean kafka.{near[0]}?"
        if near
        else "the options are those of Kafka's Java client or of librdkafka, prefixed with kafka.",
    )


def _login(given: Mapping[str, str], what: str) -> ClientConfig:
    """User and password out of ``sasl.jaas.config``, the only place where the Java client has them."""
    jaas = given.get("sasl.jaas.config")
    if not jaas:
        return {}
    module = _JAAS_MODULE.match(jaas)
    options = {
        key: re.sub(r"\\(.)", r"\1", quoted) if quoted else plain
        for key, quoted, plain in _JAAS_OPTION.findall(module[2] if module else "")
    }
    kind = module[1].rpartition(".")[2] if module else ""
    if kind == "OAuthBearerLoginModule":
        return {name: options[key] for key, name in _BEARER_OPTIONS.items() if key in options}
    if kind not in ("PlainLoginModule", "ScramLoginModule") or "username" not in options or "password" not in options:
        raise InvalidQuery(
            f"option 'kafka.sasl.jaas.config' of the {what} cannot be used",
            hint='write org.apache.kafka.common.security.plain.PlainLoginModule required username="…" password="…"; '
            "(or scram.ScramLoginModule), or give kafka.sasl.username and kafka.sasl.password",
        )
    return {"sasl.username": options["username"], "sasl.password": options["password"]}


def _stores(given: Mapping[str, str], what: str) -> ClientConfig:
    """Trust and key stores: PEM and, for keys, PKCS12. Java's own format needs a JVM."""
    config: ClientConfig = {}
    trusted = given.get("ssl.truststore.location")
    if trusted:
        if given.get("ssl.truststore.type", "").upper() != _PEM:
            raise _java_store("ssl.truststore.location", trusted, what, "keytool -exportcert -rfc > ca.pem, then")
        config["ssl.ca.location"] = trusted
    keys = given.get("ssl.keystore.location")
    if keys:
        match given.get("ssl.keystore.type", "").upper():
            case "PEM":
                config |= {"ssl.certificate.location": keys, "ssl.key.location": keys}
            case "PKCS12":
                config["ssl.keystore.location"] = keys
                if given.get("ssl.keystore.password"):
                    config["ssl.keystore.password"] = given["ssl.keystore.password"]
            case _:
                raise _java_store("ssl.keystore.location", keys, what, "type PKCS12 is understood too;")
    algorithm = given.get("ssl.endpoint.identification.algorithm")
    if algorithm is not None:
        config["ssl.endpoint.identification.algorithm"] = algorithm or "none"
    return config


def _java_store(option: str, path: str, what: str, how: str) -> InvalidQuery:
    kind = option.replace("location", "type")
    return InvalidQuery(
        f"option 'kafka.{option}' of the {what} is {path!r}, a store in Java's own format, which only a JVM can read",
        hint=f"{how} give the PEM file with kafka.{kind}=PEM",
    )
