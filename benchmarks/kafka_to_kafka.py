"""Kafka → Kafka, exactly once, beside Spark Structured Streaming (whose sink is at least once), in one run, as ratios.

    python -m benchmarks.kafka_to_kafka

Starts a broker. Throughput: a topic of two partitions, messages of 100 bytes with a key, copied by both engines in turns; the clock runs from
``start()`` to the end of the query, set-up included, and every message must have arrived exactly once for a read_committed reader.
Latency: messages at a steady rate; a message's latency is the time from the moment it was due to be sent until a read_uncommitted consumer
has it. Producer, consumer, broker and engine share the machine. Both engines with the clients' defaults, Tidegate with a checkpoint per second.

Sizes by environment: KAFKA_ROWS (8000000), KAFKA_REPEATS (3), KAFKA_RATE (20000 per second), KAFKA_LATENCY_S (30; 0 leaves it out).
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.kafka_load import Load, fill, summary
from pyspark.sql import DataFrame, SparkSession
from tests.servers.jars import jars
from tests.servers.kafka import Broker, kafka_broker

import tidegate

ROWS = int(os.environ.get("KAFKA_ROWS", "8000000"))
REPEATS = int(os.environ.get("KAFKA_REPEATS", "3"))
RATE = int(os.environ.get("KAFKA_RATE", "20000"))
LATENCY_S = int(os.environ.get("KAFKA_LATENCY_S", "30"))
ENGINES = ("tidegate", "spark")
WARM_ROWS = 2_000_000
"""Both engines, and the broker, compile while they run: Spark is twice as fast after some millions of messages."""
WARM_S = 10
"""Left out of the latencies: deploying, compiling, filling caches."""
PARTITIONS = 2
CLAIM_RATIO, CLAIM_P99_MS = 3.0, 60.0
_POM = Path(__file__).parents[1] / "tests" / "servers" / "spark-kafka-pom.xml"


def main() -> int:
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-kafka-") as folder,
        kafka_broker(Path(folder) / "broker", heap="512m", java=()) as broker,
    ):
        packages = ",".join(str(jar) for jar in sorted(jars("spark-kafka-4.2.0", _POM).glob("*.jar")))
        spark = tidegate.local_session("tidegate-kafka", cores=2, spark__driver__memory="2g", spark__jars=packages)
        bench = KafkaBench(spark, broker, Path(folder))
        held = bench.throughput() if ROWS else True
        held &= bench.latency() if LATENCY_S else True
        spark.stop()
    return 0 if held else 1


class KafkaBench:
    def __init__(self, spark: SparkSession, broker: Broker, folder: Path) -> None:
        self._spark, self._broker, self._folder = spark, broker, folder

    def throughput(self) -> bool:
        """Whether the claim held."""
        small, large = (self._broker.topic(partitions=PARTITIONS) for _ in range(2))
        fill(self._broker.bootstrap, small, WARM_ROWS, PARTITIONS)
        say("warming both engines up …")
        for engine in ENGINES:
            self._copy(engine, small)
        say(f"writing {ROWS:,} messages …")
        fill(self._broker.bootstrap, large, ROWS, PARTITIONS)
        expected = summary(self._broker.bootstrap, large, PARTITIONS, ROWS)
        ratios: list[float] = []
        rates: dict[str, list[float]] = {engine: [] for engine in ENGINES}
        for _ in range(REPEATS):
            for engine in ENGINES:
                seconds, output = self._copy(engine, large)
                rates[engine].append(ROWS / seconds)
                say(f"{engine:9} {seconds:6.2f} s  {ROWS / seconds / 1e3:6.0f} k messages/s")
                if summary(self._broker.bootstrap, output, PARTITIONS, ROWS) != expected:
                    sys.exit(f"kafka: the output of {engine} is not the input: the comparison would be void")
                self._broker.admin.delete_topics([output])[output].result(60)
            ratios.append(rates["tidegate"][-1] / rates["spark"][-1])
        ours, theirs = (statistics.median(rates[engine]) / 1e3 for engine in ENGINES)
        ratio = statistics.median(ratios)
        print(
            f"\nKafka → Kafka, {ROWS:,} messages: Tidegate exactly once {ours:.0f} k/s, Spark at least once {theirs:.0f} k/s"
        )
        print(
            f"ratio {ratio:.1f}× (runs {', '.join(f'{one:.1f}' for one in ratios)}); claim {CLAIM_RATIO:g}×\n",
            flush=True,
        )
        return ratio >= CLAIM_RATIO

    def latency(self) -> bool:
        """Whether the claim held."""
        p99 = {engine: self._latency(engine) for engine in ENGINES}
        print(f"p99 at {RATE:,} messages/s: Tidegate {p99['tidegate']:.0f} ms, Spark {p99['spark']:.0f} ms", flush=True)
        return p99["tidegate"] < CLAIM_P99_MS

    def _copy(self, engine: str, source: str) -> tuple[float, str]:
        """Seconds from start() to the end of the query, and the topic written."""
        target = self._broker.topic(partitions=PARTITIONS)
        writer = self._writer(engine, source, target).trigger(availableNow=True)
        began_s = time.perf_counter()
        writer.start().awaitTermination()
        return time.perf_counter() - began_s, target

    def _latency(self, engine: str) -> float:
        source, target = (self._broker.topic(partitions=PARTITIONS) for _ in range(2))
        writer = self._writer(engine, source, target)
        query = (writer if engine == "tidegate" else writer.trigger(processingTime="0 seconds")).start()
        load = Load(self._broker.bootstrap, source, target, partitions=PARTITIONS, rate=RATE)
        with load:
            query.awaitTermination(WARM_S + LATENCY_S)
        query.stop()
        found = load.latencies_ms(after_s=WARM_S)
        if len(found) < RATE * LATENCY_S * 0.5:
            sys.exit(f"kafka: {engine} delivered {len(found):,} of {RATE * LATENCY_S:,} messages")
        p50, p99, most = _percentiles(found)
        say(
            f"latency  {engine:9} p50 {p50:.0f} ms, p99 {p99:.0f} ms, longest {most:.0f} ms over {len(found):,} messages"
        )
        return p99

    def _writer(self, engine: str, source: str, target: str) -> Any:
        servers = {"kafka.bootstrap.servers": self._broker.bootstrap}
        reader = self._spark.readStream.format("kafka").options(**servers, subscribe=source, startingOffsets="earliest")
        copied: DataFrame = reader.load().select("key", "value")
        writer: Any = tidegate.writeStream(copied) if engine == "tidegate" else copied.writeStream
        place = tempfile.mkdtemp(dir=self._folder, prefix=f"{engine}-")
        writer = writer.format("kafka").options(**servers, topic=target).option("checkpointLocation", place)
        if engine == "tidegate":
            writer = writer.trigger(checkpoint="1 second").option("parallelism", 2)
        return writer


def _percentiles(sorted_ms: list[float]) -> tuple[float, float, float]:
    return sorted_ms[len(sorted_ms) // 2], sorted_ms[int(len(sorted_ms) * 0.99)], sorted_ms[-1]


def say(text: str) -> None:
    print(f"kafka: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
