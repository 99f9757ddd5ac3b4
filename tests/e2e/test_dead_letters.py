"""``deadLetter``: rows whose function raises are set aside exactly once, and the query goes on as if they had never come."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.e2e.scenario import SCHEMA, add_trips, assert_same_rows, files_below, while_active

import tidegate
from tidegate.model.errors import InvalidQuery

pytestmark = pytest.mark.spark
RESULT = "start timestamp, station bigint, total bigint"


def make_functions(slow: Path) -> tuple[Any, Any, Any]:
    """Local ones travel to the slots by value. ``slow``: while it exists, they take long enough to be killed in the middle."""
    path = str(slow)

    def charged(minutes: int) -> int:
        if minutes == 13:
            raise LookupError(f"no tariff for {minutes} minutes")
        if minutes == 14 and Path(path).exists():
            time.sleep(0.05)
        return minutes * 2

    def rounded(charge: pd.Series) -> pd.Series:
        if (charge == 50).any():
            raise ValueError("fifty is not a charge")
        return charge // 10 * 10

    def audited(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            if (frame.station == 5).any():
                raise PermissionError("station 5 is closed")
            yield frame

    return F.udf(charged, "bigint"), F.pandas_udf(rounded, "bigint"), audited


def totals(df: DataFrame, charge) -> DataFrame:
    df = df.withWatermark("ts", "5 seconds").withColumn("charge", charge)
    windows = df.groupBy(F.window("ts", "10 seconds"), "station").agg(F.sum("charge").alias("total"))
    return windows.select(F.col("window.start").alias("start"), "station", "total")


def letters(folder: Path) -> list[dict]:
    return [json.loads(line) for path in sorted(folder.glob("part-*.json")) for line in path.read_text().splitlines()]


def test_refused_rows_are_in_the_letters_once_though_a_slot_is_killed(spark, tmp_path):
    slow = tmp_path / "slow"
    slow.touch()
    charged, rounded, audited = make_functions(slow)
    for number in range(2):
        add_trips(tmp_path / "trips", number)
    stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "trips"))
    query = (
        tidegate.writeStream(totals(stream, rounded(charged("minutes"))).mapInPandas(audited, RESULT))
        .format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoints"))
        .options(deadLetter=str(tmp_path / "letters"), atEnd="drain", batchRowsMax=200)
        .trigger(availableNow=True, checkpoint="100 milliseconds")
        .start(str(tmp_path / "out"))
    )
    while_active(query, lambda: letters(tmp_path / "letters") and query.snapshot().pids, "letters before the kill")
    os.kill(max(query.snapshot().pids.values()), signal.SIGKILL)
    slow.unlink()
    assert query.awaitTermination(180)
    assert [one.attempt for one in query.recoveries] == [1], "the rows themselves ended nothing"

    trips = spark.read.schema(SCHEMA).parquet(str(tmp_path / "trips"))
    good = trips.where("minutes not in (13, 25)")
    expected = totals(good, F.floor(F.col("minutes") * 2 / 10) * 10)
    assert_same_rows(spark.read.parquet(str(tmp_path / "out")), expected.where("station != 5"))

    written = letters(tmp_path / "letters")
    by_function = {
        name: [one for one in written if one["function"] == name] for name in ("charged", "rounded", "audited")
    }
    assert sum(map(len, by_function.values())) == len(written)
    for name, minutes in (("charged", 13), ("rounded", 25)):
        rows = sorted(row.ts.timestamp() for row in trips.where(F.col("minutes") == minutes).collect())
        found = [json.loads(one["row"]) for one in by_function[name]]
        assert sorted(pd.Timestamp(row["ts"]).timestamp() for row in found) == rows
    closed = {(json.loads(one["row"])["station"], one["error"], one["message"]) for one in by_function["audited"]}
    assert closed == {(5, "PermissionError", "station 5 is closed")}
    assert len(by_function["audited"]) == expected.where("station = 5").count()
    one = by_function["charged"][0]
    assert (one["error"], one["message"]) == ("LookupError", "no tariff for 13 minutes")
    assert "in charged" in one["traceback"] and ".parquet" in one["position"]
    assert {letter["attempt"] for letter in written} == {1, 2}

    assert not [name for name in files_below(tmp_path / "letters") if "staged" in name], "nothing left over"
    assert int(query.lastProgress["sink"]["metrics"]["rejectedRows"]) > 0


def test_letters_among_the_output_are_refused(spark, tmp_path):
    charged, _, _ = make_functions(tmp_path / "slow")
    add_trips(tmp_path / "trips", 0, rows=10)
    stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "trips")).select(charged("minutes"))
    out = str(tmp_path / "out")
    with pytest.raises(InvalidQuery, match="deadLetter names"):
        tidegate.writeStream(stream).format("parquet").options(
            deadLetter=out, checkpointLocation=str(tmp_path / "checkpoints")
        ).start(out)
