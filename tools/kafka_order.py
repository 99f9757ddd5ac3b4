#!/usr/bin/env python3
"""`make order`: Kafka → Kafka with checkpoints every 200 ms: are rows of one key where they belong, one behind the other?

Each partition of the source has one key and rising numbers. One query copies it: every partition of its topic must hold every number, each
once, in order. Another one counts in output mode update: the counts of each key must rise, and the last one must be right.

    python tools/kafka_order.py [--rows 20000000] [--kills] [--checkpoint 200] [--partitions 4] [--seed N]

--kills: every 8 s a random slot gets kill -9, every 30 s the driver, every 40 s the broker; every 13 s one of them is stopped for 5 s. The rows
come at a pace at which they would be through just when it is over.

Exit code 0: every row was in order.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))

from kafka_order_audit import copied, counted  # noqa: E402
from storm_processes import Victim  # noqa: E402
from storm_program import NEVER, PROCESS_KINDS, Kind, Weather, arguments, in_a_folder, put_work, weather_of  # noqa: E402
from storming import Storm, what_is_missing  # noqa: E402
from tests.servers.kafka import Broker, kafka_broker  # noqa: E402

from tidegate.connectors.kafka.sink.writer import PlainWriter  # noqa: E402
from tidegate.connectors.kafka.sink_config import parse_sink  # noqa: E402
from tidegate.connectors.legacy import Sink  # noqa: E402
from tidegate.model.ids import CheckpointId, OperatorId  # noqa: E402
from tidegate.model.types import INTEGER, STRING, Field  # noqa: E402

FILLED_AT_ONCE = 50_000
KEYS = 1_000
"""Of the running counts, per partition."""
BROKER_KILLS = Kind("broker kills", "broker", 40.0, "kill -9 of the broker, which is started again")
KINDS = (*PROCESS_KINDS, BROKER_KILLS)


def main() -> int:
    parser = arguments(__doc__, 120.0, KINDS)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--checkpoint", type=int, default=200, help="milliseconds")
    parser.add_argument("--kills", action="store_true", help="for --seconds; then it goes on in peace")
    options = parser.parse_args()
    return in_a_folder(lambda folder: run(folder, options))


def run(folder: Path, options: argparse.Namespace) -> int:
    each, partitions = options.rows // options.partitions, options.partitions
    weather = weather_of(options, KINDS) if options.kills else {kind.name: NEVER for kind in KINDS}
    print(f"order: {partitions} keys, {each:,} numbers each, replay with --seed {options.seed}", flush=True)
    with kafka_broker(folder / "kafka", heap="512m", java=()) as broker:
        source, copy, counts = (broker.topic(partitions=partitions) for _ in range(3))
        fill(broker, source, partitions, each)
        put_work(
            folder,
            {
                "bootstrap": broker.bootstrap,
                "source": source,
                "copy": copy,
                "counts": counts,
                "keys": KEYS,
                "checkpoint": f"{options.checkpoint} milliseconds",
                "rows_per_s": options.rows / options.seconds if options.kills else 0,
            },
        )
        storm = OrderStorm(folder, options.seconds, weather, random.Random(options.seed), broker)
        with storm:
            began_s = time.monotonic()
            problem = storm.rage() or what_is_missing(storm)
            seconds = time.monotonic() - began_s
        if problem:
            print(f"FAILED: {problem}", flush=True)
            return 1
        happened = ", ".join(f"{times} {kind}" for kind, times in storm.counts.items()) or "no harm at all"
        print(f"order: done in {seconds:.0f} s, checkpoints: {storm.checkpoints}", flush=True)
        problems = copied(broker.bootstrap, copy, partitions, each)
        problems += counted(broker.bootstrap, counts, partitions, each, KEYS)
    for line in problems:
        print(f"order: {line}")
    right = f"OK: {each * partitions:,} rows in order after {happened}"
    print("FAILED: wrong output" if problems else right, flush=True)
    return 1 if problems else 0


def fill(broker: Broker, topic: str, partitions: int, each: int) -> None:
    """The same numbers in every partition, from 0."""
    fields = (Field("key", STRING), Field("value", STRING), Field("partition", INTEGER))
    servers = {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic, "deliveryGuarantee": "at_least_once"}
    writer = PlainWriter(
        parse_sink(Sink(id=OperatorId("fill"), format="kafka", options=servers, columns=(), schema=fields))
    )
    for begin in range(0, each, FILLED_AT_ONCE):
        numbers = pl.int_range(begin, min(begin + FILLED_AT_ONCE, each), eager=True).cast(pl.String)
        for partition in range(partitions):
            place = pl.lit(partition, pl.Int32)
            writer.write(pl.select(key=pl.lit(f"k{partition}"), value=numbers, partition=place))
    writer.prepare(CheckpointId(1))
    writer.close()
    print(f"order: {each * partitions:,} rows are in Kafka", flush=True)


class OrderStorm(Storm):
    """The broker dies as well."""

    def __init__(self, folder: Path, seconds: float, weather: Weather, chance: random.Random, broker: Broker) -> None:
        super().__init__(folder, seconds, weather, chance, program="kafka_order_query.py")
        self._broker = broker

    @property
    def checkpoints(self) -> str:
        return str(self._driver.status())

    def _harms(self) -> dict[str, Callable[[], bool]]:
        return super()._harms() | {BROKER_KILLS.name: self._kill_broker}

    def _owners(self) -> list[Victim]:
        return [*super()._owners(), Victim("the broker", self._broker.pid)]

    def _kill_broker(self) -> bool:
        """It comes back as soon as it can; one that is not back yet is spared."""
        if not self._broker.is_up():
            return False
        self._tell("kill -9 of the broker")
        self._broker.kill()
        self._broker.launch()
        return True


if __name__ == "__main__":
    sys.exit(main())
