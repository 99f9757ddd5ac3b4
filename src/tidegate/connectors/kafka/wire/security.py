"""Who we are and whom we trust, out of librdkafka's own options: what reaches the library reaches us too."""

from __future__ import annotations

import contextlib
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.connectors.kafka.wire.sasl import Conversation, plain, scram
from tidegate.model.errors import InvalidQuery

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
OPTIONS = frozenset(
    {
        "bootstrap.servers",
        "security.protocol",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.key.pem",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
    }
)
"""All that is followed of where brokers are and how to log in."""


@dataclass(frozen=True, slots=True)
class Security:
    """How a connection is made safe. Credentials never show in a text."""

    encrypted: bool
    mechanism: str
    """Empty: nobody logs in."""
    _options: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Security:
        """``options`` as librdkafka gets them."""
        protocol = options.get("security.protocol", "PLAINTEXT").upper()
        if protocol not in _PROTOCOLS:
            raise InvalidQuery(
                f"option 'kafka.security.protocol' is {protocol!r}", hint=f"it must be {' or '.join(_PROTOCOLS)}"
            )
        mechanism = ""
        if protocol.startswith("SASL"):
            mechanism = (options.get("sasl.mechanism") or options.get("sasl.mechanisms") or "GSSAPI").upper()
            if mechanism not in _MECHANISMS:
                raise InvalidQuery(
                    f"the exactly-once Kafka sink cannot log in by {mechanism}",
                    hint=f"kafka.sasl.mechanism {' or '.join(_MECHANISMS)}; at-least-once output knows them all",
                )
            if not options.get("sasl.username") or "sasl.password" not in options:
                raise InvalidQuery(
                    f"{mechanism} needs the options 'kafka.sasl.username' and 'kafka.sasl.password'",
                    hint="or kafka.sasl.jaas.config with a username and a password",
                )
        if protocol.endswith("SSL") and "ssl.keystore.location" in options:
            raise InvalidQuery(
                "the exactly-once Kafka sink reads its own certificate as PEM only",
                hint="set kafka.ssl.certificate.location and kafka.ssl.key.location",
            )
        return cls(protocol.endswith("SSL"), mechanism, dict(options))

    @classmethod
    def is_understood(cls, options: Mapping[str, str]) -> bool:
        try:
            cls.of(options)
        except InvalidQuery:
            return False
        return True

    def login(self) -> Conversation:
        user, password = self._options["sasl.username"], self._options["sasl.password"]
        match self.mechanism:
            case "PLAIN":
                return plain(user, password)
            case "SCRAM-SHA-256":
                return scram(user, password, "sha256")
            case _:
                return scram(user, password, "sha512")

    def context(self) -> ssl.SSLContext:
        """Raises OSError or ssl.SSLError when a file cannot be read."""
        options = self._options
        context = ssl.create_default_context(
            cafile=options.get("ssl.ca.location") or None, cadata=options.get("ssl.ca.pem") or None
        )
        context.check_hostname = options.get("ssl.endpoint.identification.algorithm", "https") != "none"
        if options.get("enable.ssl.certificate.verification", "true").lower() == "false":
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        with contextlib.ExitStack() as files:
            certificate = options.get("ssl.certificate.location") or self._in_file(files, "ssl.certificate.pem")
            key = options.get("ssl.key.location") or self._in_file(files, "ssl.key.pem")
            if certificate:
                context.load_cert_chain(certificate, key, options.get("ssl.key.password"))
        return context

    def _in_file(self, files: contextlib.ExitStack, name: str) -> str | None:
        """Python's ssl reads a key from files only: one that nobody else can open, for as long as it takes."""
        text = self._options.get(name)
        if text is None:
            return None
        file = files.enter_context(tempfile.NamedTemporaryFile(prefix="tidegate-", suffix=".pem"))  # noqa: SIM115
        file.write(text.encode())
        file.flush()
        return file.name
