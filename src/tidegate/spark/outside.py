"""The coordinator's hands for what may block: the checkpoint location, the sinks, savepoints elsewhere.

Each has a lane of its own, so a slow sink never keeps a manifest waiting, nor a large clean-up a commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from tidegate.checkpoint import effects as fx
from tidegate.checkpoint import storing
from tidegate.checkpoint.events import Event, SinksSwept
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.savepoint import perform_export
from tidegate.checkpoint.visibility import perform_commit
from tidegate.model.batch_ids import Numbering
from tidegate.model.errors import TidegateError, Unavailable
from tidegate.model.ids import OperatorId
from tidegate.model.snapshot import NOTHING_PUBLISHED, Committable, HandedBack, Published
from tidegate.ports.sink import SinkCommitter
from tidegate.ports.store import BlobStore
from tidegate.spark.clock import monotonic_ms
from tidegate.spark.lanes import Lane
from tidegate.spark.versions import running_versions
from tidegate.storage.open import open_store
from tidegate.storage.options import NO_OPTIONS, StorageOptions
from tidegate.storage.spreading import side_by_side

Blocking: TypeAlias = storing.StorageEffect | fx.ExportSavepoint | fx.CommitSinks | fx.SweepSinks


@dataclass(frozen=True, slots=True)
class LaneFailed:
    """Work off the loop raised what it should have reported."""

    failure: Exception


def remembered_by(committers: Mapping[OperatorId, SinkCommitter]) -> tuple[tuple[OperatorId, Published], ...]:
    """The newest output that the sinks' targets remember of this pipeline. One that knows nothing and never forgets says so."""
    asked = (
        (sink, one.published() or (None if one.forgets else NOTHING_PUBLISHED))
        for sink, one in sorted(committers.items())
    )
    return tuple((sink, published) for sink, published in asked if published is not None)


class Outside:
    """Performs effects that may block, off the loop, and posts what came of each."""

    def __init__(
        self,
        plan: CheckpointPlan,
        store: BlobStore,
        committers: Mapping[OperatorId, SinkCommitter],
        post: Callable[[Event | LaneFailed], None],
        *,
        storage: StorageOptions = NO_OPTIONS,
        name: str,
        description: str,
    ) -> None:
        """``storage``: how places of savepoints are reached. ``description``: the query as text; savepoints carry it."""
        self._plan = plan
        self._store = store
        self._open_target = partial(open_store, options=storage)
        self._committers = committers
        self._post = post
        self._description = description
        self._lanes = {lane: Lane(f"tidegate-{lane}-{name}") for lane in ("storage", "sinks", "cleanup", "export")}

    def perform(self, effect: Blocking) -> None:
        """Returns at once. Effects of one lane are performed one after the other, in the order they came."""
        match effect:
            case fx.MarkCommitted() | fx.Delete():
                self._do("cleanup", lambda: self._in_location(effect))
            case fx.ExportSavepoint():
                self._do("export", lambda: self._export(effect))
            case fx.CommitSinks():
                self._do("sinks", lambda: self._commit(effect))
            case fx.SweepSinks():
                self._do("sinks", lambda: self._sweep(effect))
            case fx.ListLocation(ask_targets=True):
                self._do("sinks", lambda: self._in_location(effect))
            case _:
                self._do("storage", lambda: self._in_location(effect))

    def stop(self) -> None:
        """Does not wait for what was asked before."""
        for lane in self._lanes.values():
            lane.stop()

    def _do(self, lane: str, work: Callable[[], Event]) -> None:
        def done() -> None:
            try:
                self._post(work())
            except Exception as failure:  # noqa: BLE001  it must end the query, not the thread
                self._post(LaneFailed(failure))

        self._lanes[lane].do(done)

    def _in_location(self, effect: storing.StorageEffect) -> Event:
        return storing.perform(self._plan, effect, self._store, monotonic_ms, lambda: remembered_by(self._committers))

    def _export(self, effect: fx.ExportSavepoint) -> Event:
        version = running_versions()["tidegate"]
        return perform_export(
            effect,
            self._store,
            self._open_target,
            monotonic_ms,
            query=self._description,
            created_by=version,
            spread=side_by_side,
        )

    def _commit(self, commit: fx.CommitSinks) -> Event:
        def ask(sink: OperatorId, committables: tuple[Committable, ...]) -> HandedBack | None:
            try:
                return self._numbered(sink, commit.numbering).commit(committables)
            except TidegateError:
                raise
            except Exception as error:  # a sink may raise anything; the coordinator tries again and then gives up
                raise Unavailable(f"a sink cannot commit: {type(error).__name__}: {error}") from error

        return perform_commit(commit, ask, monotonic_ms)

    def _sweep(self, sweep: fx.SweepSinks) -> Event:
        problems: list[str] = []
        keep = dict(sweep.keep)
        for sink in sorted(self._committers):
            try:
                self._numbered(sink, sweep.numbering).sweep(sweep.older_than, keep.get(sink, ()))
            except Exception as failure:  # noqa: BLE001  what cannot be swept now is swept in the next round
                problems.append(f"{sink}: {type(failure).__name__}: {failure}")
        return SinksSwept(monotonic_ms(), sweep.attempt, tuple(problems))

    def _numbered(self, sink: OperatorId, numbering: Numbering) -> SinkCommitter:
        committer = self._committers[sink]
        committer.number_batches(numbering.of(sink))
        return committer
