#!/usr/bin/env python3
"""Part of `make chaos`: Kafka → a join of two streams, windows → a sink, on real Spark, while everything around it dies or freezes.

Every 8 s a random slot gets kill -9, every 30 s the driver, every 40 s the broker (and PostgreSQL, if that is the sink); every 13 s a slot,
the driver or its JVM is stopped for 5 s, every 17 s a slot is cut off from the broker for 4 s. At the end a reader of the sink
must see exactly Spark batch's rows.

    python tools/connector_storm.py --sink kafka|parquet|delta|iceberg|postgres [--seconds 300] [--seed N]

Exit code 0: the output was right.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))

from confluent_kafka import Producer  # noqa: E402
from storm import Storm, Weather, verdict  # noqa: E402
from storm_processes import Victim  # noqa: E402
from storm_wire import Wire  # noqa: E402
from tests.servers.kafka import QUIET, Broker, kafka_broker  # noqa: E402
from tests.servers.postgres import Server, postgres_server  # noqa: E402

from tidegate.connectors.nexmark.config import NexmarkConfig  # noqa: E402
from tidegate.connectors.nexmark.generator import NexmarkGenerator  # noqa: E402

SINKS = ("kafka", "parquet", "delta", "iceberg", "postgres")
RATE = 2_500
"""Events per second of the storm: about what the query takes at its pace, kills included."""
PARTITIONS = 2
CUT_S = 4.0


@dataclass(frozen=True)
class ServerWeather:
    """Seconds between two events of a kind."""

    server_kill_s: float = 40.0
    cut_every_s: float = 17.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sink", choices=SINKS, default="kafka")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    defaults = Weather(), ServerWeather()
    parser.add_argument("--slot-every", type=float, default=defaults[0].slot_kill_s, help="seconds: kill -9 of a slot")
    parser.add_argument("--driver-every", type=float, default=defaults[0].driver_kill_s, help="kill -9 of the driver")
    parser.add_argument("--freeze-every", type=float, default=defaults[0].freeze_every_s, help="SIGSTOP")
    parser.add_argument("--server-every", type=float, default=defaults[1].server_kill_s, help="kill -9 of a server")
    parser.add_argument("--cut-every", type=float, default=defaults[1].cut_every_s, help="a slot is cut off")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # However we are told to end: the children are ended too.
    weather = Weather(options.slot_every, options.driver_every, options.freeze_every)
    folder = Path(tempfile.mkdtemp(prefix="tidegate-storm-"))
    try:
        with ExitStack() as stack:
            code = run(stack, folder, options, weather, ServerWeather(options.server_every, options.cut_every))
    except KeyboardInterrupt:
        print("storm: interrupted; all its processes are ended", flush=True)
        code = 130
    if code in (0, 130):
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"storm: everything is kept in {folder}", flush=True)
    return code


def run(stack: ExitStack, folder: Path, options: argparse.Namespace, weather: Weather, servers: ServerWeather) -> int:
    print(f"storm: Kafka → {options.sink}, {options.seconds:.0f} s, replay with --seed {options.seed}", flush=True)
    broker, wire = stack.enter_context(broker_behind_a_wire(folder / "kafka"))
    bootstrap = f"127.0.0.1:{wire.port}"
    harmed: list[Broker | Server] = [broker]
    if options.sink == "postgres":
        harmed.append(stack.enter_context(postgres_server()))
    events = {"events": str(int(options.seconds * RATE)), "eventRate": str(RATE), "seed": "11"}
    work = {
        "sink": options.sink,
        "options": sink_options(options.sink, folder, broker, bootstrap, harmed[-1]),
        "bootstrap": bootstrap,
        "topics": {table: feed(broker, table, events) for table in ("bid", "auction")},
        "events": events,
    }
    (folder / "work.json").write_text(json.dumps(work))
    chance = random.Random(options.seed)
    with ConnectorStorm(folder, options.seconds, weather, servers, chance, harmed, wire) as storm:
        problem = storm.blow() or storm.come_to_an_end() or storm.missed()
        counts = storm.counts
    if problem:
        print(f"FAILED: {problem}", flush=True)
        return 1
    return verdict(json.loads((folder / "result.json").read_text()), counts, None)


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


def sink_options(sink: str, folder: Path, broker: Broker, bootstrap: str, server: Broker | Server) -> dict[str, str]:
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
            assert isinstance(server, Server)
            return {"url": server.database(), "dbtable": "rows"}
        case _:
            return {"path": str(folder / "output")}


def feed(broker: Broker, table: str, events: dict[str, str]) -> str:
    """All rows of the table as JSON, in the order of their times, dealt to the partitions of a new topic."""
    config = NexmarkConfig(table=table, events=int(events["events"]), event_rate=RATE, seed=int(events["seed"]))
    topic = broker.topic(partitions=PARTITIONS)
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "queue.buffering.max.messages": 1_000_000, "linger.ms": 50, **QUIET}
    )
    columns = {"bid": ("auction", "price", "date_time"), "auction": ("id", "seller", "date_time")}[table]
    rows = NexmarkGenerator(config).rows(np.arange(config.rows or 0, dtype=np.int64), columns)
    times = rows["date_time"].dt.timestamp("us").to_list()
    others = rows.select(columns[:2]).rows()
    for number, (row, at) in enumerate(zip(others, times, strict=True)):
        value = f'{{"{columns[0]}":{row[0]},"{columns[1]}":{row[1]},"date_time":{at}}}'
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
        servers: ServerWeather,
        chance: random.Random,
        harmed: list[Broker | Server],
        wire: Wire,
    ) -> None:
        super().__init__(folder, seconds, weather, chance, program="connector_storm_query.py")
        self._server_weather = servers
        self._servers = harmed
        self._wire = wire

    def _harms(self) -> dict[str, tuple[float, Callable[[], bool]]]:
        return super()._harms() | {
            "server kills": (self._server_weather.server_kill_s, self._kill_server),
            "cuts": (self._server_weather.cut_every_s, self._cut_slot),
        }

    def _kill_server(self) -> bool:
        """It comes back as soon as it can."""
        server = self._chance.choice(self._servers)
        self.counts["server kills"] += 1
        self._tell(f"kill -9 of {'the broker' if isinstance(server, Broker) else 'PostgreSQL'}")
        server.kill()
        server.start()
        return True

    def _cut_slot(self) -> bool:
        slots: list[Victim] = self._driver.slots()
        if not slots:
            return False
        victim = self._chance.choice(slots)
        links = self._wire.cut(victim.pid, CUT_S)
        if not links:
            return False
        self.counts["cuts"] += 1
        self._tell(f"{victim.name} is cut off from the broker for {CUT_S:.0f} s: {links} connections")
        return True


if __name__ == "__main__":
    sys.exit(main())
