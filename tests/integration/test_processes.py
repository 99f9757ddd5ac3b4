"""``stop()`` leaves nothing of a query in the Python workers that Spark keeps; tests/e2e has what ends with the driver."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

DRIVER = """
import signal, sys, time
import tidegate

spark = tidegate.local_session("processes", cores=2)
rows = spark.readStream.format("rate").option("rowsPerSecond", 1000).load()
query = tidegate.writeStream(rows).format("noop").trigger(checkpoint="200 milliseconds").start()
while query.snapshot().history.completed < 2:
    time.sleep(0.05)
print("slots", *query.snapshot().pids.values(), flush=True)
if sys.argv[1] == "stop":
    query.stop()
    print("stopped", flush=True)
    signal.pause()
query.awaitTermination()
"""


@pytest.fixture
def driver(tmp_path: Path, request):
    """A driver in a process of its own with a running query, and the processes of its slots."""
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    process = subprocess.Popen(
        [sys.executable, str(script), request.param], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    words = process.stdout.readline().split()
    assert words and words[0] == "slots", process.stderr.read() if process.stderr else ""
    everyone = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    yield process, [int(pid) for pid in words[1:]], everyone
    for one in everyone:
        if one.is_running():
            one.kill()
    process.wait()


@pytest.mark.parametrize("driver", ["stop"], indirect=True)
def test_stop_frees_the_slots_while_the_session_lives_on(driver):
    process, slots, _ = driver
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "stopped"
    assert process.poll() is None
    # Spark keeps its Python workers for the next job: they may live, but nothing of the query may run in them.
    give_up_s = time.monotonic() + 150
    while busy := {pid: threads for pid in slots if "ZMQ" in (threads := " ".join(threads_of(pid)))}:
        assert time.monotonic() < give_up_s, busy
        time.sleep(0.02)


def threads_of(pid: int) -> list[str]:
    """Names of a process's threads, as the operating system knows them; none of one that has ended."""
    names = []
    for path in Path(f"/proc/{pid}/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # Ended since.
            names.append(path.read_text().strip())
    return names
