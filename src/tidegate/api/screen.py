"""Progress on the screen: a live table in a terminal, plain lines elsewhere. Off unless asked for."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.table import Table

from tidegate.api.durations import show_duration
from tidegate.api.moments import short_moment
from tidegate.model.elements import WATERMARK_MAX_US, WATERMARK_MIN_US
from tidegate.spark.health import Condition, Health
from tidegate.spark.status import JobSnapshot

if TYPE_CHECKING:
    from tidegate.api.query import StreamingQuery

ENVIRONMENT = "TIDEGATE_PROGRESS"
_REFRESH_S = 0.5
_LINE_S = 2.0


def show_progress(query: StreamingQuery, wanted: str | None) -> None:
    """``wanted``: live, plain or off; None: what the environment variable TIDEGATE_PROGRESS says, else off."""
    mode = wanted or os.environ.get(ENVIRONMENT, "off").lower()
    if mode == "live" and not sys.stderr.isatty():
        mode = "plain"
    if mode in ("live", "plain"):
        target = _live if mode == "live" else _plain
        threading.Thread(target=target, args=(query,), name="tidegate-screen", daemon=True).start()


def _live(query: StreamingQuery) -> None:
    rates = Rates()
    with Live(console=Console(stderr=True), refresh_per_second=4, transient=False) as live:
        while True:
            ended = query.wait_ended(_REFRESH_S)
            now = query.snapshot()
            live.update(as_table(query.name or query.id[:8], now, rates.of(now), query.health))
            if ended:
                return


def _plain(query: StreamingQuery) -> None:
    rates = Rates()
    while True:
        ended = query.wait_ended(_LINE_S)
        now = query.snapshot()
        print(as_line(query.name or query.id[:8], now, rates.of(now), query.health), file=sys.stderr, flush=True)  # noqa: T201
        if ended:
            return


class Rates:
    """Rows per second of each operator since the last look."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[float, int]] = {}
        self._rates: dict[str, float] = {}

    def of(self, now: JobSnapshot) -> dict[str, float]:
        for name, metrics in now.operators().items():
            rows = max(metrics.rows_in, metrics.rows_out)
            at_s, before = self._before.get(name, (now.taken_s, rows))
            if now.taken_s > at_s:
                self._rates[name] = max(0, rows - before) / (now.taken_s - at_s)
            if now.taken_s > at_s or name not in self._before:
                self._before[name] = (now.taken_s, rows)
        return dict(self._rates)


def as_table(name: str, now: JobSnapshot, rates: dict[str, float], health: Health) -> Table:
    last = now.history.last_completed()
    checkpoint = (
        f"checkpoint {last.checkpoint}: {show_duration(last.duration_ms)}, {show_bytes(last.state_bytes)} of state, "
        f"{show_bytes(last.uploaded_bytes)} uploaded"
        if last
        else "no checkpoint yet"
    )
    unwell = f"\n{show_health(health)}" if show_health(health) else ""
    table = Table(
        title=f"{name}: {now.phase}, attempt {now.attempt}, {now.restarts} restarts",
        caption=f"{checkpoint}; {now.history.completed} completed, {now.history.failed} failed{unwell}",
        caption_style="bold red" if health.condition is Condition.UNHEALTHY else None,
    )
    for column in ("operator", "rows/s", "rows in", "rows out", "state", "late", "backlog", "watermark"):
        table.add_column(column, justify="left" if column == "operator" else "right")
    for operator, metrics in now.operators().items():
        table.add_row(
            operator,
            f"{rates.get(operator, 0.0):,.0f}",
            f"{metrics.rows_in:,}",
            f"{metrics.rows_out:,}",
            f"{metrics.state_rows:,}" if metrics.state_rows else "",
            f"{metrics.late_rows:,}" if metrics.late_rows else "",
            str(metrics.backlog or ""),
            show_watermark(metrics.watermark_us),
        )
    return table


def as_line(name: str, now: JobSnapshot, rates: dict[str, float], health: Health) -> str:
    operators = now.operators()
    fastest = max(rates.values(), default=0.0)
    rows = max((metrics.rows_out for metrics in operators.values()), default=0)
    last = now.history.last_completed()
    checkpoint = f"checkpoint {last.checkpoint} in {show_duration(last.duration_ms)}" if last else "no checkpoint yet"
    watermarks = [metrics.watermark_us for metrics in operators.values() if metrics.watermark_us is not None]
    watermark = f", watermark {show_watermark(min(watermarks))}" if watermarks else ""
    unwell = f"; {show_health(health)}" if show_health(health) else ""
    return (
        f"{name}: {now.phase}, {fastest:,.0f} rows/s, {rows:,} rows, {checkpoint}, {now.restarts} restarts"
        f"{watermark}{unwell}"
    )


def show_health(health: Health) -> str:
    """Empty while all is well."""
    return "" if health.condition is Condition.HEALTHY else f"{health.condition.value}: {health.reason}"


def show_watermark(watermark_us: int | None) -> str:
    if watermark_us is None or watermark_us <= WATERMARK_MIN_US:
        return ""
    if watermark_us >= WATERMARK_MAX_US:
        return "end"
    return short_moment(watermark_us)


def show_bytes(size: int) -> str:
    amount = float(size)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
