"""On a standalone cluster: slots that are still on their way, slots that never come, and a driver that dies far from its slots."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.cluster.standalone import Standalone
from tests.e2e.scenario import ROOT, Driver, add_trips, assert_gone

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.slow, pytest.mark.soak, pytest.mark.timeout(600)]

DRIVER = """
import json, sys
from pathlib import Path
from pyspark.sql import SparkSession
from tests.e2e.scenario import SCHEMA, assert_same_rows, while_active
from tests.e2e.test_processes import start, windows
from tidegate.model.errors import TidegateError
from tidegate.spark.java import ensure_java

given = json.loads(sys.argv[1])
folder, trips = Path(given["folder"]), given["folder"] + "/trips"
ensure_java()
builder = SparkSession.builder.master(given["master"])
for name, value in {
    "spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.ui.enabled": "false", "spark.log.level": "FATAL",
    "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false", "spark.executorEnv.PYTHONPATH": given["code"],
    "spark.sql.shuffle.partitions": "2", "spark.scheduler.minRegisteredResourcesRatio": "0",
}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
query = start(spark.readStream.schema(SCHEMA).parquet(trips), folder, **given["options"])
print("started", flush=True)
try:
    while_active(query, lambda: query.snapshot().phase == "running" and query.snapshot().history.completed >= 2, "it runs")
    print("running", *query.snapshot().pids.values(), flush=True)
    query.awaitTermination(200)
    rows = assert_same_rows(spark.read.parquet(str(folder / "out")), windows(spark.read.schema(SCHEMA).parquet(trips)))
    print("equal", rows, len(query.recoveries), flush=True)
except (TidegateError, AssertionError) as failure:
    print("failed", type(query.exception() or failure).__name__, len(query.recoveries), *str(failure).split(), flush=True)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A master and one worker of one core; tests add more, and none relies on how many there are."""
    with Standalone(tmp_path_factory.mktemp("cluster")) as standalone:
        standalone.add_worker()
        yield standalone


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "slow").touch()
    for number in range(6):
        add_trips(tmp_path / "trips", number)
    return tmp_path


def test_a_query_waits_for_executors_that_are_still_on_their_way_and_talks_to_them_over_tcp(cluster, folder):
    with driver_on(cluster, folder, parallelism=cluster.workers + 1) as driver:
        driver.says("started")
        cluster.add_worker()
        slots = [psutil.Process(int(pid)) for pid in driver.says("running")]
        executors = {executor_of(slot, cluster) for slot in slots}
        assert len(executors) == len(slots) == cluster.workers, "each slot on an executor of its own"
        for slot in slots:
            kinds = {(one.type.name, one.status) for one in slot.net_connections("tcp")}
            assert ("SOCK_STREAM", psutil.CONN_LISTEN) in kinds, "data sockets between hosts are TCP"
        (folder / "slow").unlink()
        rows, recoveries = driver.says("equal")
        assert int(rows) > 500 and recoveries == "0"


def test_slots_that_never_come_are_one_clear_error(cluster, folder):
    with driver_on(cluster, folder, parallelism=5, deployTimeout="5 seconds") as driver:
        driver.says("started")
        kind, recoveries, *words = driver.says("failed")
        assert kind == "InvalidQuery" and int(recoveries) <= 1, words
        text = " ".join(words)
        assert "5 slots" in text and cluster.url in text and "parallelism" in text, text
    assert not (folder / "out").exists() or not list((folder / "out").glob("*.parquet"))


def test_slots_on_executors_leave_when_the_driver_is_killed_and_a_new_one_finishes_the_work(cluster, folder):
    """T9: the slots are no children of the driver here; its silence is all they have."""
    with driver_on(cluster, folder, parallelism=cluster.workers) as driver:
        driver.says("started")
        slots = [psutil.Process(int(pid)) for pid in driver.says("running")]
        family = driver.family()
        driver.process.send_signal(signal.SIGKILL)
        assert_gone([*slots, *family], within_s=60)
    with driver_on(cluster, folder, parallelism=1) as driver:
        driver.says("started")
        driver.says("running")
        (folder / "slow").unlink()
        rows, recoveries = driver.says("equal")
        assert int(rows) > 500 and recoveries == "0"


def driver_on(cluster: Standalone, folder: Path, **options: object) -> Driver:
    return Driver(DRIVER, folder, master=cluster.url, code=str(ROOT), options=options)


def executor_of(slot: psutil.Process, cluster: Standalone) -> int:
    return next(one.pid for one in slot.parents() if one.pid in cluster.executors())
