"""Which partitions a Kafka source reads: Spark's options ``subscribe``, ``subscribePattern`` and ``assign``."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TypeAlias

from tidegate.connectors.options import Options
from tidegate.model.errors import InvalidQuery

Place: TypeAlias = tuple[str, int]
"""Topic and partition."""

_NAMES = ("subscribe", "subscribePattern", "assign")


@dataclass(frozen=True, slots=True)
class Topics:
    """All partitions of these topics."""

    names: tuple[str, ...]

    def selects(self, topic: str, partition: int) -> bool:
        return topic in self.names

    @property
    def words(self) -> str:
        """Equal words for equal selections, however they were written. The other selections keep to that, too."""
        return f"topics {sorted(set(self.names))}"

    def __str__(self) -> str:
        return ", ".join(self.names)


@dataclass(frozen=True, slots=True)
class Pattern:
    """All partitions of all topics whose whole name matches."""

    text: str

    def matches(self, topic: str) -> bool:
        return re.fullmatch(self.text, topic) is not None

    def selects(self, topic: str, partition: int) -> bool:
        return self.matches(topic)

    @property
    def words(self) -> str:
        return f"pattern {self.text!r}"

    def __str__(self) -> str:
        return f"topics like {self.text}"


@dataclass(frozen=True, slots=True)
class Partitions:
    """These partitions and no others."""

    places: frozenset[Place]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted({topic for topic, _ in self.places}))

    def selects(self, topic: str, partition: int) -> bool:
        return (topic, partition) in self.places

    @property
    def words(self) -> str:
        return f"partitions {sorted(self.places)}"

    def __str__(self) -> str:
        return ", ".join(f"{topic}-{partition}" for topic, partition in sorted(self.places))


Selection: TypeAlias = Topics | Pattern | Partitions


def parse_selection(options: Options) -> Selection:
    given = [name for name in _NAMES if options.text(name) is not None]
    if len(given) != 1:
        raise InvalidQuery(
            f"the {options.what} needs one of the options {', '.join(_NAMES)}, and has {', '.join(given) or 'none'}",
            hint="option('subscribe', 'topic') reads all partitions of a topic",
        )
    value = (options.text(given[0]) or "").strip()
    if not value:
        raise options.invalid(given[0], value, "the name of a topic, or several with commas")
    match given[0]:
        case "subscribe":
            names = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
            if not names:
                raise options.invalid("subscribe", value, "the name of a topic, or several with commas")
            return Topics(names)
        case "subscribePattern":
            try:
                re.compile(value)
            except re.error as error:
                raise options.invalid("subscribePattern", value, f"a regular expression ({error})") from None
            return Pattern(value)
        case _:
            return Partitions(_assigned(options, value))


def _assigned(options: Options, text: str) -> frozenset[Place]:
    wanted = 'JSON such as {"topicA":[0,1],"topicB":[2]}'
    try:
        found = json.loads(text)
        places = frozenset((str(topic), _partition(one)) for topic, ones in found.items() for one in ones)
    except (ValueError, TypeError, AttributeError):
        raise options.invalid("assign", text, wanted) from None
    if not places:
        raise options.invalid("assign", text, wanted)
    return places


def _partition(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(value)
    return value
