"""A query's progress in the shape of Spark's ``StreamingQueryProgress``, plus what Spark has no word for: checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

from pyspark.sql.streaming.listener import StreamingQueryProgress

from tidegate.api.moments import iso_moment
from tidegate.api.state_reports import LateRows, late_rows, metrics_name, slowest_us, state_reports
from tidegate.checkpoint.statistics import CheckpointReport
from tidegate.model.config import CheckpointMode
from tidegate.model.elements import WATERMARK_MAX_US, WATERMARK_MIN_US
from tidegate.model.holding import Holder
from tidegate.model.ids import OperatorId
from tidegate.plan.graph import JobGraph
from tidegate.plan.relational import AssignWatermark, Plan, Scan, Sink
from tidegate.spark.holding import named
from tidegate.spark.status import JobSnapshot


@dataclass(frozen=True, slots=True)
class Totals:
    """Counters of one moment, from which the next report takes its rates."""

    at_s: float
    rows_in: int
    rows_out: int
    late: Mapping[OperatorId, LateRows] = field(default_factory=lambda: MappingProxyType({}))


Held: TypeAlias = tuple[Holder, float]
"""Who holds event time back, and since when, in seconds of the wall clock."""


@dataclass(frozen=True, slots=True)
class QueryIdentity:
    id: str
    run_id: str
    name: str | None


def build_report(
    identity: QueryIdentity,
    graph: JobGraph,
    now: JobSnapshot,
    before: Totals | None,
    sink_description: str,
    held: Sequence[Held] = (),
) -> tuple[StreamingQueryProgress, Totals]:
    """The report of ``now``, with rates since ``before``, and the totals the next one starts from."""
    operators = now.operators()

    def metrics_of(node: Plan) -> Any:
        return operators.get(metrics_name(graph, node))

    scans = {scan.id: metrics_of(scan) for scan in graph.scans()}
    sinks = [metrics_of(sink) for sink in graph.sinks() if not sink.dead_letters]
    rows_in = sum(metrics.rows_out for metrics in scans.values() if metrics)
    rows_out = sum(metrics.rows_in for metrics in sinks if metrics)
    late_before = before.late if before is not None else {}
    totals = Totals(now.taken_s, rows_in, rows_out, late_rows(graph, now, late_before))
    # Counters start again with every attempt: a smaller number is a new beginning, not a negative rate.
    since = before if before is not None and before.rows_in <= rows_in and before.rows_out <= rows_out else None
    seconds = max(1e-3, totals.at_s - since.at_s) if since else 0.0
    new_rows = rows_in - since.rows_in if since else rows_in
    rate = new_rows / seconds if seconds else 0.0
    last = now.history.last_completed()
    report: dict[str, Any] = {
        "id": identity.id,
        "runId": identity.run_id,
        "name": identity.name,
        "timestamp": iso_moment(int(now.taken_s * 1e6)),
        "batchId": last.checkpoint if last else -1,
        "batchDuration": last.duration_ms if last else 0,
        "numInputRows": new_rows,
        "inputRowsPerSecond": rate,
        "processedRowsPerSecond": rate,
        "durationMs": {"checkpoint": last.duration_ms} if last else {},
        "eventTime": _event_time(graph, now, held),
        "stateOperators": state_reports(graph, operators, late_before, totals.late),
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
    for shown, of in zip(progress["stateOperators"], report["stateOperators"], strict=True):
        shown["id"] = of["id"]
    progress["queries"] = {
        sink.query: {"sink": sink.id, "numOutputRows": metrics.rows_in if (metrics := metrics_of(sink)) else 0}
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


def _event_time(graph: JobGraph, now: JobSnapshot, held: Sequence[Held]) -> dict[str, Any]:
    if not any(isinstance(node, AssignWatermark) for stage in graph.stages for node in stage.nodes):
        return {}
    known = {scan.id: _described(scan) for scan in graph.scans()}
    holders = [
        {**named(holder, known.get(holder.source, holder.source)), "since": iso_moment(int(since_s * 1e6))}
        for holder, since_s in held
    ]
    slowest = slowest_us(graph, now)
    if slowest is None or slowest <= WATERMARK_MIN_US:
        return {"heldBy": holders}
    return {"watermark": "drained" if slowest >= WATERMARK_MAX_US else iso_moment(slowest), "heldBy": holders}


def _source(scan: Scan, now: JobSnapshot, new_rows: int, rate: float, sources: int, metrics: Any) -> dict[str, Any]:
    positions = [slot.positions[scan.id] for slot in now.slots.values() if slot.positions.get(scan.id)]
    alone = sources == 1
    return {
        "description": _described(scan),
        "startOffset": None,
        "endOffset": "; ".join(positions) or None,
        "latestOffset": None,
        "numInputRows": new_rows if alone else (metrics.rows_out if metrics else 0),
        "inputRowsPerSecond": rate if alone else 0.0,
        "processedRowsPerSecond": rate if alone else 0.0,
        "metrics": {"backlog": str(metrics.backlog)} if metrics else {},
    }


def _described(scan: Scan) -> str:
    return f"{scan.format}[{scan.spec.place}]"


def promised(guarantee: str, mode: CheckpointMode) -> str:
    """What may be relied on at a sink: never more than the checkpoints allow, whatever the sink itself could do."""
    return guarantee if mode is CheckpointMode.EXACTLY_ONCE else "at_least_once"


def describe_sink(sink: Sink, guarantee: str) -> str:
    return f"{sink.format}[{sink.spec.place}] {guarantee}"
