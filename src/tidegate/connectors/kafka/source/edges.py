"""Where a source starts and ends in each partition: Spark's options ``startingOffsets``, ``endingTimestamp`` and the like."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tidegate.connectors.kafka.source.selection import Place
from tidegate.connectors.kafka.source.splits import EARLIEST
from tidegate.connectors.options import Options

LATEST_OFFSET, EARLIEST_OFFSET = -1, EARLIEST
"""How Spark's JSON writes them."""


@dataclass(frozen=True, slots=True)
class Earliest:
    pass


@dataclass(frozen=True, slots=True)
class Latest:
    pass


@dataclass(frozen=True, slots=True)
class Offsets:
    """One for every partition; may be ``LATEST_OFFSET`` or ``EARLIEST_OFFSET``."""

    by_place: Mapping[Place, int]


@dataclass(frozen=True, slots=True)
class Times:
    """The first record at or after a moment, in milliseconds since 1970: one for all partitions or one for each."""

    by_place: Mapping[Place, int] | int
    or_latest: bool
    """No record is as late: at the end. Otherwise it is an error."""

    def of(self, place: Place) -> int | None:
        return self.by_place if isinstance(self.by_place, int) else self.by_place.get(place)


Edge: TypeAlias = Earliest | Latest | Offsets | Times


def words(edge: Edge) -> str:
    """Equal words for equal edges, however they were written."""
    match edge:
        case Earliest():
            return "earliest"
        case Latest():
            return "latest"
        case Offsets(by_place):
            return f"offsets {sorted(by_place.items())}"
        case Times(by_place, or_latest):
            moments = by_place if isinstance(by_place, int) else sorted(by_place.items())
            return f"times {moments}{' or latest' if or_latest else ''}"


def parse_starting(options: Options) -> Edge:
    """Counts at the first start only; after that the checkpoint knows."""
    strategy = options.choice("startingOffsetsByTimestampStrategy", "error", ("error", "latest"))
    return _parse(options, "starting", or_latest=strategy == "latest") or Latest()


def parse_ending(options: Options) -> Edge | None:
    """None: the stream has no end."""
    edge = _parse(options, "ending", or_latest=True)
    if isinstance(edge, Earliest) or (isinstance(edge, Offsets) and EARLIEST_OFFSET in edge.by_place.values()):
        raise options.invalid("endingOffsets", options.text("endingOffsets") or "", "latest, or offsets as JSON")
    return edge


def _parse(options: Options, which: str, *, or_latest: bool) -> Edge | None:
    """Spark's order of precedence: the moment for all, moments, offsets."""
    moment = options.text(f"{which}Timestamp")
    moments = options.text(f"{which}OffsetsByTimestamp")
    offsets = options.text(f"{which}Offsets")
    if moment is not None:
        return Times(options.integer(f"{which}Timestamp", 0), or_latest)
    if moments is not None:
        return Times(_per_partition(options, f"{which}OffsetsByTimestamp", moments, minimum=0), or_latest)
    match offsets.strip().lower() if offsets is not None else None:
        case None:
            return None
        case "earliest":
            return Earliest()
        case "latest":
            return Latest()
        case _:
            return Offsets(_per_partition(options, f"{which}Offsets", offsets or "", minimum=EARLIEST_OFFSET))


def _per_partition(options: Options, name: str, text: str, minimum: int) -> dict[Place, int]:
    try:
        found = {
            (str(topic), int(partition)): value
            for topic, partitions in json.loads(text).items()
            for partition, value in partitions.items()
        }
    except (ValueError, AttributeError):
        found = {}
    sound = all(isinstance(one, int) and not isinstance(one, bool) and one >= minimum for one in found.values())
    if not found or not sound:
        word = "" if "Timestamp" in name else "earliest, latest, or "
        raise options.invalid(name, text, f'{word}JSON such as {{"topicA":{{"0":23,"1":7}}}}')
    return found
