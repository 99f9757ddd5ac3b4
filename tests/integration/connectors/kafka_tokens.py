"""Tokens for a broker that takes those without a signature, which only tests do."""

from __future__ import annotations

import base64
import json
import time

from tests.servers.kafka import USER

LASTS_S = 3_600.0


def token(about: str) -> tuple[str, float]:
    """As a user's function: ``about`` is the text of ``kafka.sasl.oauthbearer.config``."""
    return token_of(about or USER), time.time() + LASTS_S


def token_of(subject: str, *, lasts_s: float = LASTS_S) -> str:
    claims = {"sub": subject, "iat": time.time() - 60, "exp": time.time() + lasts_s}
    return f"{_part({'alg': 'none'})}.{_part(claims)}."


def expired(about: str) -> str:
    return token_of(USER, lasts_s=-600.0)


def nothing(about: str) -> None:
    """No token at all."""


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
