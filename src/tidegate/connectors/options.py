"""Options of a source or sink as Spark treats them: names are case-insensitive, values are text."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from tidegate.connectors.legacy import COMMIT_WITHIN as COMMIT_WITHIN
from tidegate.connectors.legacy import PIPELINE as PIPELINE
from tidegate.connectors.legacy import Sink
from tidegate.model.errors import InvalidQuery

log = logging.getLogger("tidegate.connectors")

OWN_PREFIX = "tidegate."
"""Options under this prefix are set by the driver, never by the user: ``tidegate.pipeline``."""

_TRUE, _FALSE = ("true",), ("false",)


class Options:
    """Reads options by name, remembers which were asked for, and says clearly what is wrong with a value."""

    def __init__(self, options: Mapping[str, str], what: str) -> None:
        self.what = what
        """For messages: ``csv source``."""
        self._values = {key.lower(): value for key, value in options.items()}
        self._names = {key.lower(): key for key in options}
        self._asked: set[str] = set()

    def text(self, name: str, default: str | None = None) -> str | None:
        self._asked.add(name.lower())
        return self._values.get(name.lower(), default)

    def required(self, name: str, hint: str) -> str:
        value = self.text(name)
        if not value:
            raise InvalidQuery(f"the {self.what} needs the option {name!r}", hint=hint)
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.text(name)
        if value is None:
            return default
        if value.lower() in _TRUE + _FALSE:
            return value.lower() in _TRUE
        raise self.invalid(name, value, "true or false")

    def integer(self, name: str, default: int, minimum: int = 0) -> int:
        value = self.text(name)
        if value is None:
            return default
        try:
            number = int(value)
        except ValueError:
            raise self.invalid(name, value, "a whole number") from None
        if number < minimum:
            raise self.invalid(name, value, f"at least {minimum}")
        return number

    def character(self, name: str, default: str) -> str:
        value = self.text(name)
        if value is None:
            return default
        value = {"\\t": "\t", "\\0": "\0"}.get(value, value)
        if len(value) > 1 or not value.isascii():
            raise self.invalid(name, value, "one ASCII character")
        return value

    def choice(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        value = self.text(name, default) or default
        for known in allowed:
            if known.lower() == value.lower():
                return known
        raise self.invalid(name, value, " or ".join(allowed))

    def prefixed(self, prefix: str) -> dict[str, str]:
        """All options whose names begin so, under the rest of the name, in the user's own case: they go to a library as they are."""
        found = {name: key for key, name in self._names.items() if key.startswith(prefix.lower())}
        self._asked.update(found.values())
        return {name[len(prefix) :]: self._values[key] for name, key in found.items()}

    def refuse(self, *names: str, hint: str) -> None:
        """These exist in Spark and change results: refused rather than ignored."""
        for name in names:
            if self.text(name) is not None:
                raise InvalidQuery(f"option {name!r} of the {self.what} is not supported", hint=hint)

    def refuse_others(self, defaults: Mapping[str, str], *, hint: str) -> None:
        """The same of options of which Spark's default is built. The default itself, which PySpark's methods pass for what the user has
        not said, changes nothing."""
        for name, default in defaults.items():
            value = self.text(name, default)
            # Words are meant in any case; a value such as NaN is not.
            is_word = default.islower() or default.isupper()
            if value != default and not (is_word and (value or "").lower() == default.lower()):
                self.refuse(name, hint=f"{hint} ({name}={default} is what is built)")

    def ignore(self, *names: str) -> None:
        """These exist in Spark and cannot change results here."""
        self._asked.update(name.lower() for name in names)

    def warn_unknown(self) -> None:
        """Spark ignores options it does not know; so do we, but aloud."""
        unknown = [
            name for key, name in self._names.items() if key not in self._asked and not key.startswith(OWN_PREFIX)
        ]
        if unknown:
            log.warning("the %s does not know the option(s) %s: ignored", self.what, ", ".join(sorted(unknown)))

    def invalid(self, name: str, value: str, wanted: str) -> InvalidQuery:
        return InvalidQuery(f"option {name!r} of the {self.what} is {value!r}", hint=f"it must be {wanted}")


def refuse_unknown_partitions(sink: Sink) -> None:
    """Raises InvalidQuery unless ``partitionBy`` names columns of the result."""
    names = [field.name for field in sink.schema]
    unknown = [name for name in sink.partition_by if name not in names]
    if unknown:
        raise InvalidQuery(
            f"partitionBy names {', '.join(unknown)}, which the result does not have",
            hint=f"its columns are {', '.join(names)}",
        )
