"""What became of many programs: counted, added up over processes, told at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.differential.fuzz.judge import DIFFERENT, EQUAL, REFUSED, UNANSWERED, Verdict

REASONS_SHOWN = 8


@dataclass(slots=True)
class Tally:
    """``empty``: equal and without a row. ``failures``: seeds that differ."""

    counts: Counter[str] = field(default_factory=Counter)
    reasons: Mapping[str, Counter[str]] = field(default_factory=lambda: {REFUSED: Counter(), UNANSWERED: Counter()})
    empty: int = 0
    failures: list[int] = field(default_factory=list)

    def count(self, seed: int, verdict: Verdict) -> None:
        self.counts[verdict.kind] += 1
        self.empty += verdict.kind == EQUAL and not verdict.rows
        if verdict.kind in self.reasons:
            self.reasons[verdict.kind][verdict.why] += 1
        if verdict.kind == DIFFERENT:
            self.failures.append(seed)

    def add(self, other: Tally) -> None:
        self.counts.update(other.counts)
        self.empty += other.empty
        self.failures = sorted([*self.failures, *other.failures])
        for kind, reasons in self.reasons.items():
            reasons.update(other.reasons[kind])

    def summary(self) -> str:
        lines = [
            f"{self.counts.total()} programs: {self.counts[EQUAL]} equal ({self.empty} of them empty), {len(self.failures)} different, "
            f"{self.counts[REFUSED]} refused by Tidegate, {self.counts[UNANSWERED]} without an answer of Spark"
        ]
        for kind, reasons in self.reasons.items():
            lines += [f"  {kind}, {count} times: {why}" for why, count in reasons.most_common(REASONS_SHOWN)]
        if self.failures:
            lines.append(f"again: make fuzz SEED=n, n of {self.failures}")
        return "\n".join(lines)
