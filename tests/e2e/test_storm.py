"""A short storm of `make chaos`: slots and driver killed, processes frozen, the output equals Spark batch; and the storm can see damage."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from tests.e2e.scenario import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


def storm(*options: str, program: str = "storm.py") -> tuple[int, str]:
    """Exit code and output of a program in ``tools``. A test that is given up ends it, and it ends its own processes."""
    command = [sys.executable, str(ROOT / "tools" / program), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        output, _ = process.communicate()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    return process.returncode, output


def test_windows_and_running_aggregates_equal_spark_batch_after_kills_and_freezes():
    code, output = storm("--seconds", "25", "--slot-every", "4", "--freeze-every", "6", "--driver-every", "14")
    assert code == 0, output
    said = re.search(r"OK: ([\d,]+) rows .* after (\d+) slot kills, (\d+) driver kills, (\d+) freezes", output)
    assert said, output
    rows, slots, drivers, freezes = (int(number.replace(",", "")) for number in said.groups())
    assert rows > 1_000, "too little was compared"
    assert slots >= 2, output
    assert drivers >= 1, output
    assert freezes >= 1, output


@pytest.mark.soak
@pytest.mark.parametrize("harm", ["at-least-once", "alignment", "look"])
def test_without_holding_or_the_look_the_storm_sees_damage(harm):
    """What makes the equality above worth something. At least once counts bids twice, and says so."""
    code, output = storm("--harm", harm)
    assert code == 0, output
    assert f"OK: the damage of '{harm}' is seen" in output


@pytest.mark.soak
@pytest.mark.parametrize("sink", ["kafka", "parquet", "delta", "iceberg", "postgres"])
def test_from_kafka_over_a_join_and_windows_every_sink_has_spark_batchs_rows_after_everything_died(sink):
    """Slots, driver, broker and database are killed, frozen and cut off from each other."""
    code, output = storm("--sink", sink, "--seconds", "60", program="connector_storm.py")
    assert code == 0, output
    said = re.search(r"OK: ([\d,]+) rows equal Spark batch's after (.*) in", output)
    assert said, output
    assert int(said[1].replace(",", "")) > 3_000, "too little was compared"
    happened = {kind: int(times) for times, kind in re.findall(r"(\d+) ([A-Za-z ]+)", said[2])}
    wanted = {"slot kills", "driver kills", "freezes", "broker kills", "cuts"}
    wanted |= {"PostgreSQL kills"} if sink == "postgres" else set()
    assert all(happened[kind] for kind in wanted), output


def test_from_kafka_to_kafka_rows_keep_their_order_over_checkpoints():
    """T75: one key per partition, as many checkpoints as there can be; and the last value of each key in output mode update."""
    code, output = storm("--rows", "2000000", "--checkpoint", "20", program="kafka_order.py")
    assert code == 0, output
    assert "OK: 2,000,000 rows in order" in output


@pytest.mark.soak
def test_from_kafka_to_kafka_rows_keep_their_order_though_slots_driver_and_broker_die():
    """T75"""
    often = ("--slot-every", "4", "--driver-every", "14", "--broker-every", "16", "--freeze-every", "11")
    code, output = storm("--rows", "4000000", "--kills", "--seconds", "40", *often, program="kafka_order.py")
    assert code == 0, output
    assert "OK: 4,000,000 rows in order" in output
