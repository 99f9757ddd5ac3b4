"""Who we are and whom we trust, out of the options ``kafka.*`` under the names that ``options.py`` gives them."""

from __future__ import annotations

import contextlib
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidegate.connectors.kafka.client.tokens import Tokens, extensions
from tidegate.connectors.kafka.protocol.login import Conversation, bearer, plain, scram
from tidegate.connectors.kafka.protocol.requests import CLIENT_ID
from tidegate.model.errors import InvalidQuery

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_BY_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_BEARER = "OAUTHBEARER"


@dataclass(frozen=True, slots=True)
class Security:
    """How a connection is made safe. Credentials never show in a text."""

    encrypted: bool
    mechanism: str
    """Empty: nobody logs in."""
    client_id: str
    _options: Mapping[str, str] = field(repr=False)
    _tokens: Tokens | None = field(repr=False)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Security:
        protocol = options.get("security.protocol", "PLAINTEXT").upper()
        if protocol not in _PROTOCOLS:
            raise InvalidQuery(
                f"option 'kafka.security.protocol' is {protocol!r}", hint=f"it must be {' or '.join(_PROTOCOLS)}"
            )
        mechanism = (options.get("sasl.mechanism") or "GSSAPI").upper() if protocol.startswith("SASL") else ""
        if mechanism:
            _check_login(mechanism, options)
        tokens = Tokens.of(options) if mechanism == _BEARER else None
        encrypted = protocol.endswith("SSL")
        if encrypted and "ssl.keystore.location" in options:
            _load_pkcs12()
        return cls(encrypted, mechanism, options.get("client.id", CLIENT_ID), dict(options), tokens)

    def login(self) -> Conversation:
        if self._tokens is not None:
            return bearer(self._tokens.token(), extensions(self._options))
        user, password = self._options["sasl.username"], self._options["sasl.password"]
        match self.mechanism:
            case "PLAIN":
                return plain(user, password)
            case "SCRAM-SHA-256":
                return scram(user, password, "sha256")
            case _:
                return scram(user, password, "sha512")

    def context(self) -> ssl.SSLContext:
        """Raises OSError or ValueError when a file cannot be read."""
        options = self._options
        trusted, text = options.get("ssl.ca.location") or None, options.get("ssl.ca.pem") or None
        if trusted is not None and Path(trusted).is_dir():
            context = ssl.create_default_context(capath=trusted, cadata=text)
        else:
            context = ssl.create_default_context(cafile=trusted, cadata=text)
        context.check_hostname = options.get("ssl.endpoint.identification.algorithm", "https") != "none"
        if options.get("enable.ssl.certificate.verification", "true").lower() == "false":
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if revoked := options.get("ssl.crl.location"):
            context.load_verify_locations(revoked)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        if suites := options.get("ssl.cipher.suites"):
            context.set_ciphers(suites)
        with contextlib.ExitStack() as files:
            self._show_certificate(context, files)
        return context

    def _show_certificate(self, context: ssl.SSLContext, files: contextlib.ExitStack) -> None:
        options = self._options
        if store := options.get("ssl.keystore.location"):
            context.load_cert_chain(_in_file(files, _pem_of(store, options.get("ssl.keystore.password"))))
            return
        certificate = options.get("ssl.certificate.location") or _given(files, options.get("ssl.certificate.pem"))
        key = options.get("ssl.key.location") or _given(files, options.get("ssl.key.pem"))
        if certificate:
            context.load_cert_chain(certificate, key, options.get("ssl.key.password"))


def _check_login(mechanism: str, options: Mapping[str, str]) -> None:
    if mechanism not in (*_BY_PASSWORD, _BEARER):
        raise InvalidQuery(
            f"Tidegate cannot log in to Kafka by {mechanism}",
            hint=f"set kafka.sasl.mechanism to {' or '.join((*_BY_PASSWORD, _BEARER))}",
        )
    if mechanism in _BY_PASSWORD and (not options.get("sasl.username") or "sasl.password" not in options):
        raise InvalidQuery(
            f"{mechanism} needs the options 'kafka.sasl.username' and 'kafka.sasl.password'",
            hint="or kafka.sasl.jaas.config with a username and a password",
        )


def _given(files: contextlib.ExitStack, text: str | None) -> str | None:
    return None if text is None else _in_file(files, text.encode())


def _in_file(files: contextlib.ExitStack, content: bytes) -> str:
    """Python's ssl reads a key from files only: one that nobody else can open, for as long as it takes."""
    file = files.enter_context(tempfile.NamedTemporaryFile(prefix="tidegate-", suffix=".pem"))  # noqa: SIM115
    file.write(content)
    file.flush()
    return file.name


def _load_pkcs12():
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError as error:
        raise InvalidQuery(
            "a key store of type PKCS12 needs the package 'cryptography', which is not installed",
            hint="install it, or turn the store into PEM: openssl pkcs12 -in keys.p12 -out keys.pem -nodes; then set "
            "kafka.ssl.keystore.type to PEM and kafka.ssl.keystore.location to keys.pem",
        ) from error
    return pkcs12


def _pem_of(store: str, password: str | None) -> bytes:
    """Key, certificate and chain. Raises OSError or ValueError."""
    from cryptography.hazmat.primitives import serialization as form

    secret = None if password is None else password.encode()
    key, certificate, chain = _load_pkcs12().load_key_and_certificates(Path(store).read_bytes(), secret)
    if key is None or certificate is None:
        raise ValueError(f"{store} holds no key with its certificate")
    shown = b"".join(one.public_bytes(form.Encoding.PEM) for one in (certificate, *chain))
    return key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()) + shown
