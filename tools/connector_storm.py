#!/usr/bin/env python3
"""Part of `make chaos`: Kafka → a join of two streams, windows → a sink, on real Spark, while everything around it dies or freezes.

Every 8 s a random slot gets kill -9, every 30 s the driver, every 40 s the broker, every 25 s PostgreSQL if that is the sink; every
13 s a slot, the driver, its JVM or the broker is stopped for 5 s; every 17 s a slot is cut off from the broker for 4 s. Nobody waits for
anybody: drivers start while the broker is down. At the end a reader of the sink must see exactly Spark batch's rows.

    python tools/connector_storm.py --sink kafka|parquet|delta|iceberg|postgres [--seconds 300] [--seed N]

Exit code 0: the output was right.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import polars as pl

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))

from confluent_kafka import Producer  # noqa: E402
from storm_processes import Victim  # noqa: E402
from storm_program import (  # noqa: E402
    PROCESS_KINDS,
    Kind,
    Weather,
    arguments,
    in_a_folder,
    put_work,
    result_of,
    verdict,
    weather_of,
)
from storm_wire import Wire  # noqa: E402
from storming import Storm, what_is_missing  # noqa: E402
from tests.servers.kafka import QUIET, Broker, kafka_broker  # noqa: E402
from tests.servers.postgres import Server, postgres_server  # noqa: E402

from tidegate.connectors.nexmark.config import NexmarkConfig  # noqa: E402
from tidegate.connectors.nexmark.generator import NexmarkGenerator  # noqa: E402

SINKS = ("kafka", "parquet", "delta", "iceberg", "postgres")
RATE = 2_500
"""Events per second of the storm: about what the query takes at its pace, kills included."""
PARTITIONS = 2
CUT_S = 4.0
BROKER_KILLS = Kind("broker kills", "broker", 40.0, "kill -9 of the broker, which is started again")
DATABASE_KILLS = Kind("PostgreSQL kills", "database", 25.0, "the same for PostgreSQL, if it is the sink")
CUTS = Kind("cuts", "cut", 17.0, f"a slot is cut off from the broker, for {CUT_S:.0f} s")
KINDS = (*PROCESS_KINDS, BROKER_KILLS, DATABASE_KILLS, CUTS)


def main() -> int:
    parser = arguments(__doc__, 300.0, KINDS)
    parser.add_argument("--sink", choices=SINKS, default="kafka")
    options = parser.parse_args()

    def run_there(folder: Path) -> int:
        with ExitStack() as stack:
            return run(stack, folder, options)

    return in_a_folder(run_there)


def run(stack: ExitStack, folder: Path, options: argparse.Namespace) -> int:
    print(f"storm: Kafka → {options.sink}, {options.seconds:.0f} s, replay with --seed {options.seed}", flush=True)
    broker, wire = stack.enter_context(broker_behind_a_wire(folder / "kafka"))
    bootstrap = f"127.0.0.1:{wire.port}"
    database = stack.enter_context(postgres_server()) if options.sink == "postgres" else None
    events = {"events": str(int(options.seconds * RATE)), "eventRate": str(RATE), "seed": "11"}
    work = {
        "sink": options.sink,
        "options": sink_options(options.sink, folder, broker, bootstrap, database),
        "bootstrap": bootstrap,
        "topics": {table: feed(broker, folder, table, events) for table in ("bid", "auction")},
        "events": events,
    }
    put_work(folder, work)
    print(f"storm: {int(events['events']):,} events are in Kafka", flush=True)
    weather, chance = weather_of(options, KINDS), random.Random(options.seed)
    with ConnectorStorm(folder, options.seconds, weather, chance, broker, database, wire) as storm:
        problem = storm.rage() or what_is_missing(storm)
    if problem:
        print(f"FAILED: {problem}", flush=True)
        return 1
    return verdict(result_of(folder), storm.summary())


@contextmanager
def broker_behind_a_wire(folder: Path) -> Iterator[tuple[Broker, Wire]]:
    """Everybody reaches the broker through the wire: it tells its clients that address."""
    wire = Wire(0)
    properties = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{wire.port}"}
    try:
        with kafka_broker(folder, properties=properties) as broker:
            wire.target = int(broker.bootstrap.rpartition(":")[2])
            yield broker, wire
    finally:
        wire.close()


def sink_options(sink: str, folder: Path, broker: Broker, bootstrap: str, database: Server | None) -> dict[str, str]:
    match sink:
        case "kafka":
            return {"kafka.bootstrap.servers": bootstrap, "topic": broker.topic(partitions=PARTITIONS)}
        case "iceberg":
            (folder / "iceberg").mkdir()
            catalog = {
                "type": "sql",
                "uri": f"sqlite:///{folder}/iceberg/catalog.db",
                "warehouse": f"file://{folder}/iceberg/warehouse",
            }
            return {"path": "storm.rows", **{f"catalog.{name}": value for name, value in catalog.items()}}
        case "postgres":
            assert database is not None
            return {"url": database.database(), "dbtable": "rows"}
        case _:
            return {"path": str(folder / "output")}


def feed(broker: Broker, folder: Path, table: str, events: dict[str, str]) -> str:
    """All rows of the table as JSON, in the order of their times, dealt to the partitions of a new topic; and as a file, for Spark
    batch."""
    config = NexmarkConfig(table=table, events=int(events["events"]), event_rate=RATE, seed=int(events["seed"]))
    columns = {"bid": ("auction", "price", "date_time"), "auction": ("id", "seller", "date_time")}[table]
    rows = NexmarkGenerator(config).rows(np.arange(config.rows or 0, dtype=np.int64), columns)
    rows = rows.select(*columns[:2], pl.col("date_time").dt.epoch("us"))
    rows.write_parquet(folder / f"{table}.parquet")
    topic = broker.topic(partitions=PARTITIONS)
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "queue.buffering.max.messages": 1_000_000, "linger.ms": 50, **QUIET}
    )
    values = rows.select(pl.struct(pl.all()).struct.json_encode()).to_series()
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % PARTITIONS)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush()
    return topic


class ConnectorStorm(Storm):
    """Servers die as well, and slots lose their wire to the broker."""

    def __init__(
        self,
        folder: Path,
        seconds: float,
        weather: Weather,
        chance: random.Random,
        broker: Broker,
        database: Server | None,
        wire: Wire,
    ) -> None:
        super().__init__(folder, seconds, weather, chance, program="connector_storm_query.py")
        self._broker = broker
        self._database = database
        self._wire = wire

    def _harms(self) -> dict[str, Callable[[], bool]]:
        harms = super()._harms() | {BROKER_KILLS.name: self._kill_broker, CUTS.name: self._cut_slot}
        return harms if self._database is None else harms | {DATABASE_KILLS.name: self._kill_database}

    def _owners(self) -> list[Victim]:
        return [*super()._owners(), Victim("the broker", self._broker.pid)]

    def _kill_broker(self) -> bool:
        return self._kill_server("the broker", self._broker)

    def _kill_database(self) -> bool:
        return self._database is not None and self._kill_server("PostgreSQL", self._database)

    def _kill_server(self, name: str, server: Broker | Server) -> bool:
        """It comes back as soon as it can; who is not back yet is spared."""
        if not server.is_up():
            return False
        self._tell(f"kill -9 of {name}")
        server.kill()
        server.launch()
        return True

    def _cut_slot(self) -> bool:
        slots = self._driver.slots()
        if not slots:
            return False
        victim = self._chance.choice(slots)
        links = self._wire.cut(victim.pid, CUT_S)
        if links:
            self._tell(f"{victim.name} is cut off from the broker for {CUT_S:.0f} s: {links} connections")
        return links > 0


if __name__ == "__main__":
    sys.exit(main())
