"""The operators of a stage, one behind the other. What leaves the last one leaves the chain;
what one of them rejects goes to the dead-letter sink beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from tidegate.model.elements import Batch, Output, Produced, Rejected, SourceStatus, Watermark
from tidegate.model.errors import Bug
from tidegate.model.ids import CheckpointId, OperatorId
from tidegate.model.messages import OperatorMetrics
from tidegate.model.snapshot import OperatorSnapshot
from tidegate.operators.assign_watermark import AssignWatermarkOperator
from tidegate.operators.dead_letters import DeadLetterOperator
from tidegate.operators.protocol import Operator, OperatorState
from tidegate.plan.relational import Plan
from tidegate.runtime.failures import located


@dataclass(slots=True)
class Link:
    """One operator of a chain, its name, and what passed it."""

    operator: Operator
    node: Plan
    label: str
    id: OperatorId | None
    """None: has no state and no name of its own."""
    rows_in: int = 0
    rows_out: int = 0
    rejected_rows: int = 0
    busy_ms: float = 0.0
    inside_since_ms: float | None = None
    """When the call that runs right now began; the one thing another thread reads while the loop works."""
    watermark_us: int | None = None


class Chain:
    """Feeds elements through the operators depth first, lazily: the caller draws outputs one at a time and may pause between two."""

    def __init__(self, links: tuple[Link, ...], clock: Callable[[], float] | None, position: Callable[[], str]) -> None:
        self.links = tuple(link for link in links if not isinstance(link.operator, DeadLetterOperator))
        """Those the stream passes; the sink for dead letters stands beside it."""
        self._all = links
        self._dead_letters = next((link for link in links if isinstance(link.operator, DeadLetterOperator)), None)
        self._clock = clock
        self._position = position
        self.flushes = any(link.operator.flushes for link in self.links)
        """Rows may leave at a barrier, before it."""
        self.assigner = next(
            (link.operator for link in self.links if isinstance(link.operator, AssignWatermarkOperator)), None
        )
        """Makes watermarks of the rows that pass."""

    def feed(self, element: Batch | Watermark | SourceStatus, start: int = 0) -> Iterator[Output]:
        return self._through(start, element)

    def end(self, start: int = 0) -> Iterator[Output]:
        """All input has ended: each operator in turn gives what it kept back, through those behind it."""
        for index in range(start, len(self.links)):
            link = self.links[index]
            for output in self._draw(link, self._start(link, link.operator.on_end)):
                yield from self._through(index + 1, output)

    @property
    def next_time_ms(self) -> float:
        """When ``on_time`` has something to do, by the clock on the wall."""
        return min((link.operator.next_time_ms for link in self.links), default=float("inf"))

    def tell_time(self, now_ms: int) -> None:
        for link in self.links:
            link.operator.tell_time(now_ms)

    def on_time(self, now_ms: int) -> Iterator[Output]:
        """What timers release, each operator's through those behind it."""
        for index, link in enumerate(self.links):
            for output in self._draw(link, self._start(link, partial(link.operator.on_time, now_ms))):
                yield from self._through(index + 1, output)

    def flush(self, checkpoint: CheckpointId) -> Iterator[Output]:
        """The barrier stands in every input: each operator in turn gives what leaves before it, through those behind it."""
        for index, link in enumerate(self.links):
            for output in self._draw(link, self._start(link, partial(link.operator.on_barrier, checkpoint))):
                yield from self._through(index + 1, output)

    def _through(self, index: int, element: Batch | Watermark | SourceStatus) -> Iterator[Output]:
        if index == len(self.links):
            if not isinstance(element, SourceStatus):
                yield element
            return
        link = self.links[index]
        match element:
            case Batch():
                link.rows_in += element.rows.height
                produced = self._start(link, lambda: link.operator.on_batch(element))
            case Watermark(at_us=at_us):
                link.watermark_us = at_us
                produced = self._start(link, lambda: link.operator.on_watermark(at_us))
            case SourceStatus():
                produced = self._start(link, lambda: link.operator.on_status(element))
        for output in self._draw(link, produced):
            yield from self._through(index + 1, output)
        match element:
            case Watermark(at_us=at_us):
                promised = link.operator.output_watermark(at_us)
                if promised is not None:
                    yield from self._through(index + 1, Watermark(promised))
            case SourceStatus():
                yield from self._through(index + 1, element)
            case Batch():
                pass

    def _start(self, link: Link, call: Callable[[], Iterator[Produced]]) -> Iterator[Produced]:
        """Operators that are no generators do their work in the call itself: time it, and blame it, all the same."""
        clock = self._clock
        began_ms = link.inside_since_ms = clock() if clock is not None else 0.0
        try:
            produced = call()
        except Exception as error:
            raise located(error, link.node, link.label, self._position()) from error
        link.inside_since_ms = None
        if clock is not None:
            link.busy_ms += clock() - began_ms
        return produced

    def _draw(self, link: Link, produced: Iterator[Produced]) -> Iterator[Output]:
        clock = self._clock
        while True:
            began_ms = link.inside_since_ms = clock() if clock is not None else 0.0
            try:
                output = next(produced, None)
            except Exception as error:
                raise located(error, link.node, link.label, self._position()) from error
            link.inside_since_ms = None
            if clock is not None:
                link.busy_ms += clock() - began_ms
            if output is None:
                return
            match output:
                case Batch(rows=rows):
                    link.rows_out += rows.height
                case Watermark(at_us=at_us):
                    link.watermark_us = max(at_us, link.watermark_us or at_us)
                case Rejected():
                    self._reject(link, output)
                    continue
            yield output

    def _reject(self, link: Link, rejected: Rejected) -> None:
        letters = self._dead_letters
        if letters is None or not isinstance(letters.operator, DeadLetterOperator):
            raise Bug(f"operator {link.label} rejects rows in a stage without a dead-letter sink")
        link.rejected_rows += rejected.letters.height
        letters.rows_in += rejected.letters.height
        try:
            letters.operator.reject(rejected, link.label, self._position())
        except Exception as error:
            raise located(error, letters.node, letters.label, self._position()) from error

    def snapshot(self, checkpoint: CheckpointId) -> tuple[tuple[OperatorId, OperatorState], ...]:
        """State of every operator that has some, by reference."""
        states: list[tuple[OperatorId, OperatorState]] = []
        for link in self._all:
            link.inside_since_ms = self._clock() if self._clock is not None else 0.0
            try:
                state = link.operator.snapshot(checkpoint)
            except Exception as error:
                raise located(error, link.node, link.label, self._position()) from error
            link.inside_since_ms = None
            if state is not None and link.id is not None:
                states.append((link.id, state))
        return tuple(states)

    def capture(self) -> None:
        """Every operator copies some more rows of its last snapshot."""
        for link in self._all:
            link.operator.capture()

    def abandon_capture(self, checkpoint: CheckpointId) -> None:
        for link in self._all:
            link.operator.abandon_capture(checkpoint)

    def on_stored(self, checkpoint: CheckpointId, snapshots: tuple[OperatorSnapshot, ...]) -> None:
        handles = {snapshot.operator: snapshot.chunks for snapshot in snapshots}
        for link in self._all:
            if link.id is not None and link.id in handles:
                link.operator.on_stored(checkpoint, handles[link.id])

    def on_completed(self, checkpoint: CheckpointId) -> None:
        for link in self._all:
            link.operator.on_completed(checkpoint)

    def on_committed(self, checkpoint: CheckpointId) -> None:
        for link in self._all:
            link.operator.on_committed(checkpoint)

    def inside(self) -> tuple[str, float] | None:
        """The operator whose call runs right now, and since when. May be asked by another thread."""
        for link in self._all:
            since_ms = link.inside_since_ms
            if since_ms is not None:
                return link.label, since_ms
        return None

    def metrics(self, stage: int, backlog: int) -> tuple[OperatorMetrics, ...]:
        return tuple(
            OperatorMetrics(
                operator=f"{stage} {link.label}",
                rows_in=link.rows_in,
                rows_out=link.rows_out,
                late_rows=link.operator.counters.late_rows,
                late_rows_restored=link.operator.counters.late_rows_restored,
                rejected_rows=link.rejected_rows,
                state_rows=link.operator.counters.state_rows,
                state_bytes=link.operator.counters.state_bytes,
                watermark_us=link.watermark_us,
                busy_ms=link.busy_ms,
                backlog=backlog if index == 0 else 0,
            )
            for index, link in enumerate(self._all)
        )

    def close(self) -> None:
        for link in self._all:
            link.operator.close()
