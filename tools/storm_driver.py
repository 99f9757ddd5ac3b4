"""What the driver programs of all storms share: where they are, what they tell the harness, how they say what is wrong."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

from tidegate.api.query import StreamingQuery
from tidegate.connectors.nexmark.config import BASE_TIME_MS
from tidegate.spark.status import JobSnapshot

FOLDER = Path(os.environ["STORM_FOLDER"])
NAME = os.environ["STORM_NAME"]
SILENCE = "4 seconds"
"""Shorter than a freeze: a slot that was frozen may find when it wakes that it was given up."""
EXAMPLES = 3


def run_to_end(queries: dict[str, StreamingQuery], events: int, event_rate: int) -> list[str]:
    """What they failed with. ``events`` of ``event_rate`` per second of event time are their input."""

    def tell() -> None:
        put(f"status.{NAME}", json.dumps({name: _status(query, events, event_rate) for name, query in queries.items()}))

    while active := [query for query in queries.values() if query.isActive]:
        tell()
        active[0].wait_ended(0.1)
    tell()
    return [f"{name}: {failure}" for name, query in queries.items() if (failure := query.exception()) is not None]


def _status(query: StreamingQuery, events: int, event_rate: int) -> dict:
    """To the harness: how far it is, and whom it may kill."""
    now = query.snapshot()
    last = now.history.last_completed()
    return {
        "phase": now.phase if query.isActive else "ended",
        "attempt": now.attempt,
        "checkpoint": 0 if last is None else last.checkpoint,
        "skew_ms": 0 if last is None else max((times.alignment_ms for _, times in last.acks), default=0),
        "completed": now.history.completed,
        "pids": now.pids if query.isActive else {},
        "events": min(events, _passed_us(now) * event_rate // 1_000_000),
    }


def _passed_us(now: JobSnapshot) -> int:
    """Event time that all watermarks have passed; 0: there is none."""
    marks = [one.watermark_us for one in now.operators().values() if one.watermark_us is not None]
    return max(0, min(marks, default=0) - BASE_TIME_MS * 1000)


def put(name: str, text: str) -> None:
    """Whole or not at all."""
    (FOLDER / f"{name}.new").write_text(text)
    (FOLDER / f"{name}.new").rename(FOLDER / name)


def put_result(rows: int, problems: list[str]) -> None:
    put("result.json", json.dumps({"rows": rows, "problems": problems}))


def difference(wanted: Counter[tuple], found: Counter[tuple]) -> list[str]:
    """In words what is wrong with the rows, each as often as it is to be; nothing, if nothing is."""
    if wanted == found:
        return []
    missing, surplus = wanted - found, found - wanted
    told = f"of {wanted.total():,} rows {missing.total():,} are missing and {surplus.total():,} are wrong or repeated"
    examples = [
        f"{what}: {row} ({times} of {of[row]})"
        for what, rows, of in (("missing", missing, wanted), ("too many", surplus, found))
        for row, times in sorted(rows.items())[:EXAMPLES]
    ]
    return [told, *examples]
