"""Options of a user's data source: they are his, and nobody has declared which of them are secret."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.ports.showing import HIDDEN, without_passwords
from tidegate.ports.spec import Place, place_of_path

_PLACES = ("path", "subscribe", "topic", "subscribepattern", "assign", "table", "dbtable")
"""Names that say where data lies, most telling first. None of them holds a secret by its name."""
_SECRET_WORDS = ("password", "secret", "token", "credential", "key", "jaas")


def place_of(given: Mapping[str, str]) -> Place:
    options = {name.lower(): value for name, value in given.items()}
    return place_of_path(next((options[name] for name in _PLACES if options.get(name)), ""))


def shown_options(given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """For people: values only of those that say where data lies."""
    return tuple(
        (name, without_passwords(value) if name.lower() in _PLACES else HIDDEN) for name, value in sorted(given.items())
    )


def shown_by_sound(given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """For people: values of all but those whose names sound like a secret."""
    return tuple(
        (name, HIDDEN if _sounds_secret(name.lower()) else without_passwords(value))
        for name, value in sorted(given.items())
    )


def asked_of(given: Mapping[str, str]) -> str:
    """What the options say about the beginning of a source, as it has always been stored: with others that is decided anew."""
    told = [f"{name}={value}" for name, value in shown_by_sound(given)]
    return f" ({', '.join(told)})" if told else ""


def _sounds_secret(option: str) -> bool:
    return option != "keys" and any(word in option for word in _SECRET_WORDS)  # Names of columns are no secret.
