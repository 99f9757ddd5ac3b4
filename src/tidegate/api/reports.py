"""A query's progress in the shape of Spark's ``StreamingQueryProgress``, plus what Spark has no word for: checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryProgress

from tidegate.checkpoint.statistics import CheckpointReport
from tidegate.model.config import CheckpointMode
from tidegate.model.elements import WATERMARK_MAX_US, WATERMARK_MIN_US
from tidegate.plan.graph import JobGraph
from tidegate.plan.relational import Aggregate, Scan, Sink
from tidegate.plan.shapes import place_of
from tidegate.spark.status import JobSnapshot


@dataclass(frozen=True, slots=True)
class Totals:
    """Counters of one moment, from which the next report takes its rates."""

    at_s: float
    rows_in: int
    rows_out: int


@dataclass(frozen=True, slots=True)
class QueryIdentity:
    id: str
    run_id: str
    name: str | None


def build_report(
    identity: QueryIdentity, graph: JobGraph, now: JobSnapshot, before: Totals | None, sink_description: str
) -> tuple[StreamingQueryProgress, Totals]:
    """The report of ``now``, with rates since ``before``, and the totals the next one starts from."""
    operators = now.operators()

    def metrics_of(name: str) -> Any:
        return next((metrics for label, metrics in operators.items() if label.split()[-1] == name), None)

    scans = {scan.id: metrics_of(scan.id) for scan in graph.scans()}
    sinks = [metrics_of(sink.id) for sink in graph.sinks() if not sink.dead_letters]
    rows_in = sum(metrics.rows_out for metrics in scans.values() if metrics)
    rows_out = sum(metrics.rows_in for metrics in sinks if metrics)
    totals = Totals(now.taken_s, rows_in, rows_out)
    # Counters start again with every attempt: a smaller number is a new beginning, not a negative rate.
    since = before if before is not None and before.rows_in <= rows_in and before.rows_out <= rows_out else None
    seconds = max(1e-3, totals.at_s - since.at_s) if since else 0.0
    new_rows = rows_in - since.rows_in if since else rows_in
    rate = new_rows / seconds if seconds else 0.0
    watermarks = [m.watermark_us for m in operators.values() if m.watermark_us is not None]
    last = now.history.last_completed()
    report: dict[str, Any] = {
        "id": identity.id,
        "runId": identity.run_id,
        "name": identity.name,
        "timestamp": _iso(now.taken_s),
        "batchId": last.checkpoint if last else -1,
        "batchDuration": last.duration_ms if last else 0,
        "numInputRows": new_rows,
        "inputRowsPerSecond": rate,
        "processedRowsPerSecond": rate,
        "durationMs": {"checkpoint": last.duration_ms} if last else {},
        "eventTime": _event_time(watermarks),
        "stateOperators": [_state_operator(node, metrics_of) for node in _aggregates(graph)],
        "sources": [_source(scan, now, new_rows, rate, len(scans), scans[scan.id]) for scan in graph.scans()],
        "sink": {
            "description": sink_description,
            "numOutputRows": rows_out - since.rows_out if since else rows_out,
            # Since the attempt began, like the counters it is made of; Spark's metrics of a sink are text.
            "metrics": {"rejectedRows": str(sum(m.rejected_rows for m in operators.values()))},
        },
        "observedMetrics": {},
        "checkpoint": describe_checkpoint(last) if last else None,
    }
    progress = StreamingQueryProgress.fromJson(report)
    progress["checkpoint"] = report["checkpoint"]
    progress["queries"] = {
        sink.query: {"sink": sink.id, "numOutputRows": metrics.rows_in if (metrics := metrics_of(sink.id)) else 0}
        for sink in graph.sinks()
        if sink.query
    }
    return progress, totals


def describe_checkpoint(report: CheckpointReport) -> dict[str, Any]:
    """What ``query.checkpoint()`` returns and ``lastProgress["checkpoint"]`` holds."""
    times = [times for _, times in report.acks]
    return {
        "id": report.checkpoint,
        "attempt": report.attempt,
        "kind": report.kind.value,
        "state": report.outcome.value,
        "durationMs": report.duration_ms,
        "alignmentMs": max((t.alignment_ms for t in times), default=0.0),
        "syncMs": max((t.sync_ms for t in times), default=0.0),
        "asyncMs": max((t.async_ms for t in times), default=0.0),
        "stateBytes": report.state_bytes,
        "uploadedBytes": report.uploaded_bytes,
    }


def _aggregates(graph: JobGraph) -> list[Aggregate]:
    return [node for stage in graph.stages for node in stage.nodes if isinstance(node, Aggregate)]


def _event_time(watermarks: list[int]) -> dict[str, str]:
    if not watermarks or min(watermarks) <= WATERMARK_MIN_US:
        return {}
    lowest = min(watermarks)
    return {"watermark": "drained" if lowest >= WATERMARK_MAX_US else _iso(lowest / 1e6)}


def _state_operator(node: Aggregate, metrics_of: Callable[[str], Any]) -> dict[str, Any]:
    metrics = metrics_of(node.id)
    return {
        "operatorName": node.id,
        "numRowsTotal": metrics.state_rows if metrics else 0,
        "numRowsUpdated": 0,
        "allUpdatesTimeMs": int(metrics.busy_ms) if metrics else 0,
        "numRowsRemoved": 0,
        "allRemovalsTimeMs": 0,
        "commitTimeMs": 0,
        "memoryUsedBytes": metrics.state_bytes if metrics else 0,
        "numRowsDroppedByWatermark": metrics.late_rows if metrics else 0,
        "numShufflePartitions": 0,
        "numStateStoreInstances": 0,
        "customMetrics": {},
    }


def _source(scan: Scan, now: JobSnapshot, new_rows: int, rate: float, sources: int, metrics: Any) -> dict[str, Any]:
    positions = [slot.positions[scan.id] for slot in now.slots.values() if slot.positions.get(scan.id)]
    alone = sources == 1
    return {
        "description": f"{scan.format}[{scan.options.get('path', '')}]",
        "startOffset": None,
        "endOffset": "; ".join(positions) or None,
        "latestOffset": None,
        "numInputRows": new_rows if alone else (metrics.rows_out if metrics else 0),
        "inputRowsPerSecond": rate if alone else 0.0,
        "processedRowsPerSecond": rate if alone else 0.0,
        "metrics": {"backlog": str(metrics.backlog)} if metrics else {},
    }


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def promised(guarantee: str, mode: CheckpointMode) -> str:
    """What may be relied on at a sink: never more than the checkpoints allow, whatever the sink itself could do."""
    return guarantee if mode is CheckpointMode.EXACTLY_ONCE else "at_least_once"


def describe_sink(sink: Sink, guarantee: str) -> str:
    return f"{sink.format}[{place_of(sink)}] {guarantee}"
