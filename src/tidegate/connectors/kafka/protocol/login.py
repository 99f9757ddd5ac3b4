"""Logging in: what a client says and how it checks what the broker says back. PLAIN (RFC 4616), SCRAM (RFC 5802, 7677), OAUTHBEARER (RFC 7628)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Generator, Mapping
from dataclasses import dataclass

from tidegate.connectors.kafka.protocol.codec import Reader, plain_bytes, plain_string
from tidegate.connectors.kafka.protocol.requests import Request

Conversation = Generator[bytes, bytes, None]
"""Yields what to send, gets what came back; ends when both sides are content."""

ITERATIONS_MIN, ITERATIONS_MAX = 4_096, 1_000_000
"""Fewer are a downgrade; more would keep us busy for whoever asks."""


_SEPARATOR = "\x01"


class NotTrusted(Exception):
    """The other side does not prove that it knows the password, or speaks nonsense."""


@dataclass(frozen=True, slots=True)
class SaslAnswer:
    error: int
    message: str
    data: bytes = b""
    mechanisms: tuple[str, ...] = ()


def sasl_handshake(mechanism: str) -> Request[SaslAnswer]:
    def read(reader: Reader) -> SaslAnswer:
        error = reader.int16()
        known = tuple(reader.plain_string() or "" for _ in range(reader.plain_length()))
        return SaslAnswer(error, "", mechanisms=known)

    return Request("SaslHandshake", 17, 1, plain_string(mechanism), read, flexible=False)


def sasl_authenticate(data: bytes) -> Request[SaslAnswer]:
    def read(reader: Reader) -> SaslAnswer:
        return SaslAnswer(reader.int16(), reader.plain_string() or "", reader.plain_bytes())

    return Request("SaslAuthenticate", 36, 0, plain_bytes(data), read, flexible=False)


def plain(user: str, password: str) -> Conversation:
    yield f"\0{user}\0{password}".encode()


def scram(user: str, password: str, algorithm: str, nonce: str | None = None) -> Conversation:
    """``algorithm``: ``sha256`` or ``sha512``. The password never travels, and the broker has to prove that it knows it too."""
    nonce = nonce or secrets.token_urlsafe(24)
    name = user.replace("=", "=3D").replace(",", "=2C")
    ours = f"n={name},r={nonce}"
    theirs = (yield f"n,,{ours}".encode()).decode(errors="replace")
    fields = _fields(theirs)
    full_nonce, salt, count = fields.get("r", ""), fields.get("s", ""), fields.get("i", "")
    if not full_nonce.startswith(nonce) or not salt or not count.isdigit():
        raise NotTrusted("the broker's challenge does not answer ours")
    iterations = int(count)
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise NotTrusted(f"the broker asks for {iterations} iterations")
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), base64.b64decode(salt), iterations)
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    without_proof = f"c=biws,r={full_nonce}"
    signed = f"{ours},{theirs},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(algorithm, client_key).digest(), signed, algorithm)
    proof = bytes(key ^ mask for key, mask in zip(client_key, signature, strict=True))
    final = _fields((yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()).decode(errors="replace"))
    expected = hmac.digest(hmac.digest(salted, b"Server Key", algorithm), signed, algorithm)
    if not hmac.compare_digest(final.get("v", ""), base64.b64encode(expected).decode()):
        raise NotTrusted("the broker did not prove that it knows the password")


def bearer(token: str, extensions: Mapping[str, str]) -> Conversation:
    """A token instead of a password. A broker that refuses it says why, and waits for a word before it breaks off."""
    more = "".join(f"{name}={value}{_SEPARATOR}" for name, value in extensions.items())
    refused = yield f"n,,{_SEPARATOR}auth=Bearer {token}{_SEPARATOR}{more}{_SEPARATOR}".encode()
    if refused:
        yield _SEPARATOR.encode()
        raise NotTrusted(refused.decode(errors="replace"))


def _fields(message: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in message.split(",") if part[1:2] == "="}
