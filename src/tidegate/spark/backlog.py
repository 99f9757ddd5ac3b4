"""Whether sources are far behind their input: then checkpoints may come less often, and catching up faster."""

from __future__ import annotations

from tidegate.checkpoint.events import BacklogSeen
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.sources import SplitAssigner
from tidegate.model.ids import Attempt


class BacklogWatch:
    """Far behind: for longer than a checkpoint interval, more than one split per slot has waited for a reader.

    No longer: as soon as that is not so. Only sources whose splits end are judged: what is left of an endless one, nobody knows.
    """

    def __init__(self) -> None:
        self._attempt: Attempt | None = None
        self._behind_since_ms: int | None = None
        self._told = False

    def look(
        self, attempt: Attempt, sources: tuple[SplitAssigner, ...], plan: CheckpointPlan, now_ms: int
    ) -> BacklogSeen | None:
        """The event to post, when it changed. Every attempt begins with a coordinator that was told nothing."""
        if attempt != self._attempt:
            self._attempt, self._behind_since_ms, self._told = attempt, None, False
        waiting = max((len(source.pending) - source.given for source in sources if not source.endless), default=0)
        if waiting <= plan.parallelism:
            self._behind_since_ms = None
        elif self._behind_since_ms is None:
            self._behind_since_ms = now_ms
        since_ms = self._behind_since_ms
        far_behind = since_ms is not None and now_ms - since_ms > plan.config.checkpoint_interval_ms
        if far_behind == self._told:
            return None
        self._told = far_behind
        return BacklogSeen(now_ms, attempt, far_behind)
