"""A standalone cluster of two workers: slots on two executors, encrypted channels between them, an executor killed on the way."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyspark
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]

QUERY = """
import os, signal, sys, time
from pathlib import Path
import psutil
from pyspark.sql import SparkSession, functions as F
import tidegate
from tidegate.spark.java import ensure_java

master, place = sys.argv[1:3]
settings = {
    "spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.ui.enabled": "false", "spark.log.level": "FATAL",
    "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.sql.session.timeZone": "UTC",
}
builder = SparkSession.builder.master(master)
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
rows = spark.range(0, 300_000, 1, 12).select(F.timestamp_millis(F.col("id") * 10).alias("ts"), (F.col("id") % 50).alias("k"))
rows.write.parquet(f"{place}/in")

slow = Path(place, "slow")
slow.touch()

def slowly(batches):
    for batch in batches:
        if slow.exists():
            time.sleep(0.1)
        yield batch

def windows(df):
    df = df.withWatermark("ts", "1 second").groupBy(F.window("ts", "10 seconds"), "k")
    return df.agg(F.count("*").alias("n"))

stream = spark.readStream.schema("ts timestamp, k bigint").parquet(f"{place}/in").mapInArrow(slowly, "ts timestamp, k bigint")
writer = tidegate.writeStream(windows(stream)).format("parquet").option("checkpointLocation", f"{place}/ck").option("parallelism", 2)
writer = writer.option("atEnd", "drain").option("batchRowsMax", 1000).trigger(checkpoint="500 milliseconds", availableNow=True)
query = writer.start(f"{place}/out")
while query.isActive and (query.snapshot().history.completed < 2 or query.snapshot().phase != "running"):
    time.sleep(0.02)
hosts = {psutil.Process(pid).parent().parent().pid for pid in query.snapshot().pids.values()}
print("executors", *hosts, flush=True)
if sys.argv[3] == "kill":
    os.kill(min(hosts), signal.SIGKILL)
slow.unlink()
query.awaitTermination(300)
print("recoveries", *[str(one) for one in query.recoveries], flush=True)
result, expected = spark.read.parquet(f"{place}/out"), windows(spark.read.parquet(f"{place}/in"))
print("rows", result.count(), expected.count(), result.exceptAll(expected).count(), expected.exceptAll(result).count(), flush=True)
"""


@pytest.fixture(scope="module")
def master(tmp_path_factory) -> Iterator[str]:
    """The address of a standalone master with two workers of one core each."""
    from tidegate.spark.java import ensure_java

    place = tmp_path_factory.mktemp("cluster")
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "JAVA_HOME": ensure_java(),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "256m",
    }
    log = place / "master.log"

    def launch(name: str, *arguments: str) -> subprocess.Popen:
        with (place / f"{name}.log").open("wb") as out:
            command = [str(home / "bin" / "spark-class"), *arguments]
            return subprocess.Popen(command, env=environment, stdout=out, stderr=out, cwd=place)

    processes = [
        launch(
            "master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"
        )
    ]
    try:
        url = wait_for(lambda: re.search(r"spark://127\.0\.0\.1:\d+", log.read_text()), log).group(0)
        for number in (1, 2):
            options = (
                "--host",
                "127.0.0.1",
                "--cores",
                "1",
                "--memory",
                "1g",
                "--webui-port",
                "0",
                "--work-dir",
                str(place / f"work{number}"),
            )
            processes.append(launch(f"worker{number}", "org.apache.spark.deploy.worker.Worker", *options, url))
            wait_for(lambda n=number: log.read_text().count("Registering worker") >= n, log)
        yield url
    finally:
        for process in processes:
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
            process.kill()
            process.wait()


def wait_for(condition, log: Path, timeout_s: float = 120.0):
    give_up = time.monotonic() + timeout_s
    while not (result := log.exists() and condition()):
        assert time.monotonic() < give_up, log.read_text()[-2000:]
        time.sleep(0.1)
    return result


@pytest.mark.parametrize("what", [pytest.param("run", marks=pytest.mark.soak), "kill"])
def test_two_executors_give_what_batch_gives_even_when_one_is_killed(master, tmp_path, what):
    script = tmp_path / "query.py"
    script.write_text(QUERY)
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, str(script), master, str(tmp_path), what]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=540)
    lines = dict(line.partition(" ")[::2] for line in done.stdout.splitlines())
    assert "rows" in lines, done.stdout + done.stderr[-4000:]
    rows, expected, extra, missing = map(int, lines["rows"].split())
    assert (rows, extra, missing) == (expected, 0, 0)
    assert len(lines["executors"].split()) == 2, "the slots ran on two executors"
    assert ("attempt" in lines["recoveries"]) == (what == "kill")
