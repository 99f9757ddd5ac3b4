"""What the coordinator of one pipeline knows from the beginning and what never changes while it lives."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tidegate.model.config import QueryConfig
from tidegate.model.ids import OperatorId, PipelineId, SlotIndex, StageId, SubtaskId
from tidegate.model.shape import StateShape
from tidegate.plan.closing import only_judges
from tidegate.plan.graph import JobGraph
from tidegate.plan.relational import AssignWatermark, Scan
from tidegate.plan.streams import far_sources


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of publication, each with a switch. Only tests turn one off, to see the harm that it prevents."""

    look_before_effects: bool = True
    """1: write, then look for the next claim, then touch the outside."""
    lineage: bool = True
    """2: only manifests of the newest attempt that wrote ``restored``, or the one it names, may be restored."""
    unknown_is_unknown: bool = True
    """3: an unanswered write is resolved only by seeing the file."""
    committables_are_state: bool = True
    """4: a manifest carries every committable that is not confirmed."""
    late_is_harmless: bool = True
    """5: aborts and deletes touch only what is older than what was written before the look."""
    fall_back_with_proof: bool = True
    """6: an older checkpoint is restored only past ones that cannot have been committed."""
    no_ping_pong: bool = True
    """7: an automatic restart claims exactly the number after its own."""
    requests_are_ordinary: bool = True
    """8: a checkpoint that a person asked for belongs to the sequence: recovery goes on from it like from any other.
    (What rule 8 says about exported savepoints gets its test with them.)"""
    retention_by_reference: bool = True
    """9: nothing is deleted that a restorable manifest or an in-flight checkpoint names."""


RULE_SWITCHES: dict[int, str] = {
    1: "look_before_effects",
    2: "lineage",
    3: "unknown_is_unknown",
    4: "committables_are_state",
    5: "late_is_harmless",
    6: "fall_back_with_proof",
    7: "no_ping_pong",
    8: "requests_are_ordinary",
    9: "retention_by_reference",
}
"""The rules by their numbers."""


def without(rule: int) -> Rules:
    """All rules but one."""
    return replace(Rules(), **{RULE_SWITCHES[rule]: False})


@dataclass(frozen=True, slots=True)
class SourceEventTime:
    """What is made of the event times of a source's rows, where they still know their split."""

    source: OperatorId
    stream: OperatorId
    """The ``withWatermark`` of the query; a union below one makes several sources one stream."""
    delay_us: int


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """The shape of the pipeline as far as checkpoints are concerned; independent of attempts."""

    pipeline: PipelineId
    parallelism: int
    subtasks: tuple[SubtaskId, ...]
    """Every subtask acknowledges every checkpoint; sorted."""
    sources: tuple[OperatorId, ...]
    """Each has one reader in every slot; sorted."""
    stateful: tuple[OperatorId, ...]
    """Operators that have an entry in every manifest; sorted."""
    sinks: tuple[OperatorId, ...]
    shapes: tuple[StateShape, ...] = ()
    """What the state of an operator means; a checkpoint is restored only into the same shapes. Sorted."""
    pinned: tuple[OperatorId, ...] = ()
    """Operators whose id the user chose."""
    event_time: bool = False
    """Watermarks decide what is late: once drained, everything that follows is."""
    only_judges: bool = False
    """Watermarks decide what is late, and nothing else."""
    source_times: tuple[SourceEventTime, ...] = ()
    """Of those sources for whose rows somebody asks for the time; sorted."""
    far_sources: frozenset[OperatorId] = frozenset()
    """For the time of whose rows somebody asks who does not know them apart any more."""
    upstream: tuple[tuple[StageId, tuple[StageId, ...]], ...] = ()
    """Stages a stage reads from: tells a subtask that is late from one that waits for a late one."""
    config: QueryConfig = field(default_factory=QueryConfig)
    rules: Rules = field(default_factory=Rules)
    store_tries_max: int = 5
    """How often the creation of one manifest is tried while its outcome is unknown."""

    def __post_init__(self) -> None:
        if not self.subtasks:
            raise ValueError("a pipeline has at least one subtask")
        for name in ("subtasks", "sources", "stateful", "sinks"):
            values = getattr(self, name)
            if list(values) != sorted(set(values)):
                raise ValueError(f"{name} are not sorted or not unique: {values}")
        timed = [one.source for one in self.source_times]
        if timed != sorted(set(timed)):
            raise ValueError(f"source_times are not sorted or not unique: {timed}")

    def has_subtask(self, subtask: SubtaskId) -> bool:
        at = bisect_left(self.subtasks, subtask)
        return at < len(self.subtasks) and self.subtasks[at] == subtask

    def stream_of(self, source: OperatorId) -> OperatorId | None:
        time = self._time_of(source)
        return None if time is None else time.stream

    def delay_us_of(self, source: OperatorId) -> int | None:
        time = self._time_of(source)
        return None if time is None else time.delay_us

    def _time_of(self, source: OperatorId) -> SourceEventTime | None:
        at = bisect_left(self.source_times, source, key=lambda one: one.source)
        found = self.source_times[at : at + 1]
        return found[0] if found and found[0].source == source else None

    @property
    def slots(self) -> tuple[SlotIndex, ...]:
        return tuple(SlotIndex(index) for index in range(self.parallelism))


def plan_of(graph: JobGraph, pipeline: PipelineId, config: QueryConfig) -> CheckpointPlan:
    """The coordinator's view of a job graph."""
    slots = [SlotIndex(index) for index in range(graph.parallelism)]
    return CheckpointPlan(
        pipeline=pipeline,
        parallelism=graph.parallelism,
        subtasks=tuple(sorted(SubtaskId(stage.id, slot) for stage in graph.stages for slot in slots)),
        sources=tuple(sorted(scan.id for scan in graph.scans())),
        stateful=graph.stateful_ids(),
        sinks=tuple(sorted(sink.id for sink in graph.sinks())),
        shapes=graph.state_shapes(),
        event_time=any(isinstance(node, AssignWatermark) for stage in graph.stages for node in stage.nodes),
        only_judges=only_judges(graph),
        source_times=tuple(sorted(_source_times(graph), key=lambda one: one.source)),
        far_sources=far_sources(graph),
        pinned=graph.pinned_ids(),
        upstream=tuple(
            (stage.id, tuple(sorted({edge.source for edge in graph.inputs_of(stage.id)}))) for stage in graph.stages
        ),
        config=config,
    )


def _source_times(graph: JobGraph) -> Iterator[SourceEventTime]:
    for stage in graph.stages:
        scan = stage.nodes[0]
        if isinstance(scan, Scan):
            for node in stage.nodes:
                if isinstance(node, AssignWatermark):
                    yield SourceEventTime(scan.id, node.stream or node.id, node.delay_us)
                    break
