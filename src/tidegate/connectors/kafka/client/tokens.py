"""Tokens for the login by OAUTHBEARER: from a function of the user, or from the server that issues them (client credentials)."""

from __future__ import annotations

import base64
import importlib
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.model.errors import InvalidQuery, Unavailable

FUNCTION = "sasl.oauthbearer.token.function"
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_ID, _SECRET = "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret"
ENDPOINT_SECONDS = 10.0
EARLY_SECONDS = 30.0
"""A token that ends sooner is not used for a new connection."""


@dataclass(frozen=True, slots=True)
class Token:
    text: str = field(repr=False)
    ends_s: float | None
    """Seconds since 1970; None: nobody says."""


class Tokens:
    """For several threads. A token is used again until shortly before its end."""

    def __init__(self, ask: Callable[[], Token]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._newest: Token | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Tokens:
        """Raises InvalidQuery when the options name no way to a token."""
        if function := options.get(FUNCTION, ""):
            module, colon, name = function.partition(":")
            if not (module and colon and name):
                raise InvalidQuery(
                    f"option 'kafka.{FUNCTION}' is {function!r}", hint="it names a function as module:function"
                )
            return cls(lambda: _called(module, name, options.get("sasl.oauthbearer.config", "")))
        if missing := [name for name in (_ENDPOINT, _ID, _SECRET) if not options.get(name)]:
            raise InvalidQuery(
                f"OAUTHBEARER needs the option 'kafka.{FUNCTION}', or 'kafka.{missing[0]}'",
                hint=f"name a function that returns a token (module:function), or set {_ENDPOINT}, {_ID} and {_SECRET}",
            )
        if not options[_ENDPOINT].lower().startswith(("https://", "http://")):
            raise InvalidQuery(f"option 'kafka.{_ENDPOINT}' is {options[_ENDPOINT]!r}", hint="it must be an https URL")
        return cls(lambda: _issued(options))

    def token(self) -> str:
        with self._lock:
            newest = self._newest
            if newest is None or newest.ends_s is None or newest.ends_s < time.time() + EARLY_SECONDS:
                self._newest = newest = self._ask()
            return newest.text


def extensions(options: Mapping[str, str]) -> dict[str, str]:
    """``name=value,name=value``."""
    pairs = (part.partition("=") for part in options.get("sasl.oauthbearer.extensions", "").split(",") if part.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _called(module: str, name: str, argument: str) -> Token:
    """As confluent-kafka calls its ``oauth_cb``: with one text. Returns a token, or a token and when it ends."""
    try:
        function: Any = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InvalidQuery(
            f"option 'kafka.{FUNCTION}' names {module}:{name}, which cannot be imported: {error}",
            hint="the module must be importable on the driver and on every executor",
        ) from error
    try:
        found = function(argument)
    except Exception as error:
        raise Unavailable(f"{module}:{name} returned no token for Kafka: {error!r}") from error
    match found:
        case str():
            return Token(found, None)
        case (str() as text, (int() | float()) as ends_s, *_):
            return Token(text, float(ends_s))
        case _:
            raise InvalidQuery(
                f"{module}:{name} returned {type(found).__name__} instead of a token for Kafka",
                hint="it must return a str, or a tuple of the token and its end in seconds since 1970",
            )


def _issued(options: Mapping[str, str]) -> Token:
    """The grant of client credentials (RFC 6749, 4.4)."""
    wanted = {"grant_type": "client_credentials", "scope": options.get("sasl.oauthbearer.scope", "")}
    secret = f"{urllib.parse.quote(options[_ID], safe='')}:{urllib.parse.quote(options[_SECRET], safe='')}"
    request = urllib.request.Request(
        options[_ENDPOINT],
        urllib.parse.urlencode({name: value for name, value in wanted.items() if value}).encode(),
        {"Authorization": f"Basic {base64.b64encode(secret.encode()).decode()}", "Accept": "application/json"},
    )
    began_s = time.time()
    try:
        with urllib.request.urlopen(request, timeout=ENDPOINT_SECONDS) as answer:
            found = json.load(answer)
        text, lasts_s = found["access_token"], found.get("expires_in")
    except urllib.error.HTTPError as error:
        if error.code in (400, 401, 403):
            raise InvalidQuery(
                f"{options[_ENDPOINT]} issues no token for Kafka: {error}", hint=f"see kafka.{_ID} and kafka.{_SECRET}"
            ) from error
        raise Unavailable(f"{options[_ENDPOINT]} issues no token for Kafka: {error}") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unavailable(f"{options[_ENDPOINT]} issues no token for Kafka: {error!r}") from error
    return Token(str(text), None if lasts_s is None else began_s + float(lasts_s))
