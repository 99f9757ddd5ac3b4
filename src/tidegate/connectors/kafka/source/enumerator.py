"""Driver side of the Kafka source: finds partitions, decides where each starts and, in bounded runs, ends.

A split is a partition. It stays open from run to run, and its position is the next offset. Only a bounded run ends it: at an offset
that was its end when the run started. The next run continues the partition with a new split that starts there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import msgspec

from tidegate.connectors.kafka.config import KafkaSourceConfig
from tidegate.connectors.kafka.source.cluster import Cluster, Topic
from tidegate.connectors.kafka.source.edges import LATEST_OFFSET, Earliest, Edge, Latest, Offsets, Times, words
from tidegate.connectors.kafka.source.selection import Partitions, Pattern, Place
from tidegate.connectors.kafka.source.splits import (
    EARLIEST,
    KafkaSplit,
    KnownPartitions,
    NumberedSplit,
    decode_known,
    decode_split,
)
from tidegate.model.errors import InvalidQuery, Outdated
from tidegate.model.snapshot import Split
from tidegate.ports.source import SplitEnumerator

log = logging.getLogger("tidegate.connectors.kafka")

LOOK_MS = 1_000
"""A broker is asked for new partitions at most this often."""


class KafkaEnumerator(SplitEnumerator):
    endless = True

    def __init__(self, config: KafkaSourceConfig, cluster: Cluster, *, bounded: bool) -> None:
        """``bounded``: read what is there now, then end."""
        self._config = config
        self._cluster = cluster
        self._available_now = bounded and config.ending is None
        self._stops = bounded or config.ending is not None
        self.ordered = config.is_ordered(stops=self._stops)
        """A row may be late for an earlier one of its partition. Otherwise order inside one counts for nothing: the end is known,
        and time waits for all rows up to there."""
        self.asked = _asked(config)
        self._looked = False
        self._looked_ms = 0
        self._known = KnownPartitions()
        self._newest: dict[Place, NumberedSplit] = {}
        self._is_done: Callable[[int], bool] = frozenset[int]().__contains__
        self._missing: set[str] = set()
        """Topics whose absence has been told."""

    @property
    def bounded(self) -> bool:
        return self._stops and self._looked

    def check(self) -> None:
        """The brokers answer and the topics exist: if not so, it is said before anything runs."""
        topics = self._topics()
        if self._config.fail_on_data_loss:
            self._require(topics)

    def discover(self, now_ms: int) -> tuple[Split, ...]:
        if self._looked and (self._stops or abs(now_ms - self._looked_ms) < LOOK_MS):
            return ()
        topics = self._topics()
        self._looked_ms = now_ms
        if not self._known.started:
            self._require(topics)
        found = self._new_splits(topics)
        self._looked = True
        self._known = msgspec.structs.replace(self._known, started=True)
        return tuple(one.as_split() for one in found)

    def begin(self, now_ms: int) -> bytes:
        first = KafkaEnumerator(self._config, self._cluster, bounded=self._available_now)
        first.discover(now_ms)
        return first.snapshot()

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(self._known)

    def learn_done(self, is_done: Callable[[int], bool]) -> None:
        self._is_done = is_done

    def close(self) -> None:
        self._cluster.close()

    def restore(self, state: bytes, known: tuple[Split, ...]) -> tuple[Split, ...]:
        """Splits that are not done come back with the end that this run gives them."""
        stored = decode_known(state) if state else KnownPartitions()
        splits = {one.number: one for one in stored.splits}
        splits |= {split.number: NumberedSplit(split.number, decode_split(split.payload)) for split in known}
        for number in sorted(splits):
            self._newest[splits[number].split.place] = splits[number]
        newest = {one.number for one in self._newest.values()}
        continuing = [one for one in self._newest.values() if not self._is_done(one.number)]
        self._refuse_deselected(continuing)
        self._known = KnownPartitions(
            started=stored.started or bool(splits),
            following=max((stored.following, *(number + 1 for number in splits))),
            # The newest split of a partition stays, done or not: it says how far the partition has been read.
            splits=tuple(splits[n] for n in sorted(splits) if n in newest or not self._is_done(n)),
        )
        if self._config.ending is None:
            self._end_again(continuing)
        return tuple(one.as_split() for one in self._known.splits)

    def _end_again(self, splits: list[NumberedSplit]) -> None:
        """Without an end in a run that has none; in one that has, where the partition ends now."""
        selected = [one for one in splits if self._config.selection.selects(*one.split.place)]
        there = self._cluster.described({one.split.topic for one in selected}) if self._available_now else {}
        places = {place for topic in there.values() for place in topic.places}
        ends = self._cluster.latest(one.split.place for one in selected if one.split.place in places)
        for one in splits:
            # A partition that is gone, or that the query does not read, has nothing to wait for.
            end = ends.get(one.split.place, 0) if self._available_now else None
            self._replace(NumberedSplit(one.number, msgspec.structs.replace(one.split, end=end)))

    def _topics(self) -> dict[str, Topic]:
        selection = self._config.selection
        names = self._cluster.matching(selection) if isinstance(selection, Pattern) else selection.names
        found = self._cluster.described(names)
        if not isinstance(selection, Partitions):
            return found
        return {
            name: Topic(name, one.id, tuple(number for number in one.partitions if selection.selects(name, number)))
            for name, one in found.items()
        }

    def _require(self, topics: dict[str, Topic]) -> None:
        """At the first start everything that the query names must be there."""
        selection = self._config.selection
        if isinstance(selection, Pattern):
            if not topics:
                log.warning("no topic matches subscribePattern %r yet", selection.text)
            return
        missing = [name for name in selection.names if name not in topics]
        if isinstance(selection, Partitions):
            places = {place for topic in topics.values() for place in topic.places}
            missing += [f"{t}-{p}" for t, p in sorted(selection.places - places) if t in topics]
        if missing:
            raise InvalidQuery(
                f"there is no topic or partition {', '.join(missing)} at {self._config.servers}",
                hint="create it, or correct the option; subscribePattern takes topics that come later",
            )

    def _new_splits(self, topics: dict[str, Topic]) -> list[NumberedSplit]:
        self._refuse_vanished(topics)
        if self._config.ending is not None and self._known.started:
            return []  # What is read was decided at the first start.
        starts: dict[Place, int] = {}
        fresh: list[Place] = []
        for topic in topics.values():
            for place in topic.places:
                newest = self._newest.get(place)
                if newest is None:
                    fresh.append(place)
                elif topic.id and newest.split.topic_id and topic.id != newest.split.topic_id:
                    starts[place] = self._recreated(topic)
                elif newest.split.end is not None and self._is_done(newest.number):
                    starts[place] = newest.split.end
        starts |= dict.fromkeys(fresh, EARLIEST) if self._known.started else self._resolve(self._config.starting, fresh)
        ends = self._ends(starts)
        return [
            self._add(KafkaSplit(topic=t, partition=p, topic_id=topics[t].id, start=start, end=ends[t, p]))
            for (t, p), start in sorted(starts.items())
            if ends[t, p] is None or start < (ends[t, p] or 0) or (t, p) not in self._newest
        ]

    def _ends(self, starts: dict[Place, int]) -> dict[Place, int | None]:
        if self._config.ending is not None:
            latest = self._cluster.latest(starts)
            ends = self._resolve(self._config.ending, list(starts), latest)
            for place, end in ends.items():
                if end > latest[place]:
                    raise InvalidQuery(
                        f"endingOffsets asks for offset {end} of {place[0]}-{place[1]}, which ends at {latest[place]}",
                        hint="take an offset that is there, or latest",
                    )
            return dict(ends)
        if self._available_now:
            return dict(self._cluster.latest(starts))
        return dict.fromkeys(starts)

    def _resolve(self, edge: Edge, places: list[Place], latest: dict[Place, int] | None = None) -> dict[Place, int]:
        """``EARLIEST`` stays as it is: what is deleted before the first read is not missed."""
        if not places:
            return {}
        match edge:
            case Earliest():
                return dict.fromkeys(places, EARLIEST)
            case Latest():
                return latest if latest is not None else self._cluster.latest(places)
            case Offsets(by_place):
                self._require_all(places, by_place)
                ends = latest if latest is not None else self._cluster.latest(places)
                return {place: ends[place] if by_place[place] == LATEST_OFFSET else by_place[place] for place in places}
            case Times():
                moments = {place: edge.of(place) for place in places}
                self._require_all(places, {place for place, at_ms in moments.items() if at_ms is not None})
                found = self._cluster.at({place: at_ms for place, at_ms in moments.items() if at_ms is not None})
                late = sorted(place for place, offset in found.items() if offset is None)
                if late and not edge.or_latest:
                    topic, partition = late[0]
                    raise InvalidQuery(
                        f"no record of {topic}-{partition} is as late as {moments[late[0]]} ms, where the query is to start",
                        hint="take an earlier timestamp, or option startingOffsetsByTimestampStrategy=latest",
                    )
                ends = self._cluster.latest(late)
                return {place: ends[place] if offset is None else offset for place, offset in found.items()}

    def _require_all(self, places: list[Place], named: Iterable[Place]) -> None:
        missing = sorted(set(places) - set(named))
        if missing:
            raise InvalidQuery(
                f"the offsets given do not name {', '.join(f'{t}-{p}' for t, p in missing)}",
                hint="name every partition: -2 is its earliest offset, -1 its latest",
            )

    def _refuse_vanished(self, topics: dict[str, Topic]) -> None:
        gone = {place[0] for place in self._newest if self._config.selection.selects(*place)} - topics.keys()
        if gone and self._config.fail_on_data_loss:
            raise self._config.lost(f"topic {', '.join(sorted(gone))} has been deleted")
        for topic in sorted(gone - self._missing):
            log.warning("topic %s is gone; failOnDataLoss=false: the query goes on without it", topic)
        self._missing = gone

    def _recreated(self, topic: Topic) -> int:
        text = f"topic {topic.name} has been deleted and made again"
        if self._config.fail_on_data_loss:
            raise self._config.lost(text)
        if self._looked:
            # Readers still hold the old one. They find out when they open it again.
            raise Outdated(f"{text}: its new partitions are read from the beginning, after a restart")
        log.warning("%s; failOnDataLoss=false: it is read from its beginning", text)
        return EARLIEST

    def _refuse_deselected(self, splits: list[NumberedSplit]) -> None:
        """Readers open none of them, whatever ``failOnDataLoss`` says."""
        others = sorted(
            (*one.split.place, one.number) for one in splits if not self._config.selection.selects(*one.split.place)
        )
        if not others:
            return
        named = "; ".join(f"split {number}, {topic}-{partition}" for topic, partition, number in others)
        text = f"it is in the middle of {named}, which the query no longer reads"
        if self._config.fail_on_data_loss:
            raise self._config.lost(text)
        log.warning("%s; failOnDataLoss=false: the rest is left unread", text)

    def _add(self, split: KafkaSplit) -> NumberedSplit:
        one = NumberedSplit(self._known.following, split)
        self._newest[split.place] = one
        self._known = msgspec.structs.replace(self._known, following=one.number + 1, splits=(*self._known.splits, one))
        return one

    def _replace(self, one: NumberedSplit) -> None:
        self._newest[one.split.place] = one
        splits = tuple(one if old.number == one.number else old for old in self._known.splits)
        self._known = msgspec.structs.replace(self._known, splits=splits)


def _asked(config: KafkaSourceConfig) -> str | None:
    """The earliest offset is the same at any time; any other is a place that moves, or a set of partitions that grows. So is an end.

    Which partitions are read belongs to it: a topic that the options name later begins where they say, not where new ones do."""
    selection, starting, ending = config.selection, config.starting, config.ending
    if isinstance(starting, Earliest) and ending is None:
        return None
    return f"{selection.words} from {words(starting)} to {'no end' if ending is None else words(ending)}"
