"""What the world gives to a connector. Nothing of it stands among the options of the user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.model.ids import Attempt, OperatorId, PipelineId, SlotIndex
from tidegate.model.types import Schema
from tidegate.ports.directory import OpenDirectory
from tidegate.ports.store import BlobStore


@dataclass(frozen=True, slots=True, kw_only=True)
class EnumeratorContext:
    """To the driver side of a source. One per attempt, and one to check the source at the start."""

    operator: OperatorId
    bounded: bool
    """The run has an end: ``availableNow``."""
    parallelism: int
    open_directory: OpenDirectory
    event_time: str | None = None
    """The source's column that ``withWatermark`` reads as it is stored; empty: it reads something else; None: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderContext:
    """To the slot side of a source."""

    operator: OperatorId
    columns: tuple[str, ...]
    """The source's columns that are wanted."""
    schema: Schema
    """Their names and types in the plan, in the same order."""
    open_directory: OpenDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkContext:
    """To both sides of a sink."""

    pipeline: PipelineId
    operator: OperatorId
    store: BlobStore
    """The checkpoint location, for sinks that keep something there."""
    open_directory: OpenDirectory
    commit_within_ms: int
    """What may lie between the first row of a checkpoint and its commit, a restart in between included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitterContext(SinkContext):
    """To the driver side of a sink. One per start."""

    callback: Callable[..., None] | None = None
    """For sinks whose output goes to somebody in this process: a function of the user, or a view."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterContext(SinkContext):
    """To the slot side of a sink. One per subtask of an attempt."""

    attempt: Attempt
    subtask: SlotIndex
