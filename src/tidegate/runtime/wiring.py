"""Builds the subtasks of one slot from the graph: operators with their restored state, channels and who reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tidegate.eventtime.combiner import Streams, WatermarkCombiner
from tidegate.model.elements import Element
from tidegate.model.errors import SlotLost
from tidegate.model.ids import ChannelId, OperatorId, SlotIndex, SubtaskId
from tidegate.model.snapshot import OperatorSnapshot
from tidegate.operators.build import build
from tidegate.operators.ports import Connectors
from tidegate.operators.protocol import Operator, OperatorContext
from tidegate.operators.source import SourceOperator
from tidegate.operators.user_functions import Load
from tidegate.plan.explain import label
from tidegate.plan.graph import Edge, JobGraph, Partitioning, Stage
from tidegate.plan.relational import Plan, Stateful
from tidegate.plan.streams import streams_of
from tidegate.runtime.chain import Chain, Link
from tidegate.runtime.credits import Credits
from tidegate.runtime.effects import Send
from tidegate.runtime.failures import located
from tidegate.runtime.in_flight import restored_rows
from tidegate.runtime.input_channel import InputChannel
from tidegate.runtime.input_subtask import InputSubtask
from tidegate.runtime.output_channel import OutputChannel
from tidegate.runtime.outputs import Outputs
from tidegate.runtime.restore import LoadChunk, check_complete, restored_for
from tidegate.runtime.routing import router
from tidegate.runtime.source_subtask import SourceSubtask
from tidegate.runtime.stage_time import restored_start_us
from tidegate.runtime.subtask import SlotScope
from tidegate.state.entries import EntryBackend
from tidegate.state.entries_in_memory import EntriesInMemory
from tidegate.state.keygroups import range_of


@dataclass(slots=True)
class Wiring:
    """One slot's subtasks, from the sources down, and the ends of its channels."""

    subtasks: list[SourceSubtask | InputSubtask] = field(default_factory=list)
    inputs: dict[ChannelId, InputChannel] = field(default_factory=dict)
    outputs: dict[ChannelId, OutputChannel] = field(default_factory=dict)
    credits: Credits = field(default_factory=Credits)


@dataclass(frozen=True, slots=True)
class Deployment:
    """Everything a slot is built from."""

    graph: JobGraph
    connectors: Connectors
    restored: tuple[OperatorSnapshot, ...]
    chunks: LoadChunk
    load: Load
    now_ms: float
    entries: Callable[[], EntryBackend] = EntriesInMemory


def wire(deployment: Deployment, scope: SlotScope) -> Wiring:
    graph = deployment.graph
    check_complete(graph, deployment.restored)
    wiring = Wiring()
    for edge in graph.edges:
        for channel in _into(edge, scope.slot, graph.parallelism):
            wiring.inputs[channel] = InputChannel(channel)
    streams = streams_of(graph)
    for stage in graph.stages:
        wiring.subtasks.append(_subtask(stage, deployment, scope, wiring, streams))
    return wiring


def _subtask(
    stage: Stage, deployment: Deployment, scope: SlotScope, wiring: Wiring, streams: Mapping[int, Streams]
) -> SourceSubtask | InputSubtask:
    graph = deployment.graph
    subtask = SubtaskId(stage.id, scope.slot)
    links = tuple(_link(node, deployment, scope) for node in stage.nodes)
    outputs = Outputs(
        tuple(
            (
                router(edge, scope.slot, graph.parallelism, graph.max_parallelism),
                tuple(_output(channel, scope, wiring) for channel in _out_of(edge, scope.slot, graph.parallelism)),
            )
            for edge in graph.outputs_of(stage.id)
        ),
        overtake_after_ms=scope.overtake_after_ms,
    )
    source = links[0].operator
    if isinstance(source, SourceOperator):
        chain = Chain(links, scope.clock, source.describe)
        return SourceSubtask(subtask, scope, source, chain, outputs)
    edges = graph.inputs_of(stage.id)
    channels = tuple(channel for edge in edges for channel in _into(edge, scope.slot, graph.parallelism))
    state = graph.input_state_id(stage.id)
    start_us = restored_start_us(
        state,
        deployment.restored,
        scope.slot,
        graph.parallelism,
        exchanged=any(edge.partitioning is not Partitioning.FORWARD for edge in edges),
    )
    combiner = WatermarkCombiner(
        channels,
        start_us=start_us,
        streams=streams,
        policy=scope.config.watermark_policy,
    )
    return InputSubtask(
        subtask,
        state,
        scope,
        tuple(wiring.inputs[channel] for channel in channels),
        wiring.credits,
        combiner,
        Chain(links, scope.clock, lambda: ""),
        outputs,
        restored_rows(
            state,
            edges,
            deployment.restored,
            subtask=scope.slot,
            parallelism=graph.parallelism,
            max_parallelism=graph.max_parallelism,
            load=deployment.chunks,
        ),
        {edge.number: edge.port for edge in edges},
    )


def _link(node: Plan, deployment: Deployment, scope: SlotScope) -> Link:
    graph = deployment.graph
    name = label(node)
    own = _id_of(node)
    groups = range_of(scope.slot, graph.parallelism, graph.max_parallelism)
    context = OperatorContext(
        operator=own or OperatorId(name),
        subtask=scope.slot,
        parallelism=graph.parallelism,
        max_parallelism=graph.max_parallelism,
        groups=groups,
        attempt=scope.attempt,
        capture_rows=scope.config.capture_rows,
        complete_rows_max=scope.config.complete_rows_max,
        entries=deployment.entries,
    )
    try:
        if own is not None and deployment.restored:
            context = _with_state(context, own, deployment)
        operator: Operator = build(
            node, context, deployment.connectors, scope.config, deployment.load, deployment.now_ms, deployment.chunks
        )
    except Exception as error:
        raise located(error, node, name, "") from error
    return Link(operator, node, name, own)


def _with_state(context: OperatorContext, own: OperatorId, deployment: Deployment) -> OperatorContext:
    restored = restored_for(
        own,
        deployment.restored,
        subtask=context.subtask,
        parallelism=context.parallelism,
        groups=context.groups,
        load=deployment.chunks,
    )
    return replace(context, operator=own, restored=restored)


def _id_of(node: Plan) -> OperatorId | None:
    return node.id if isinstance(node, Stateful) else None


def _output(channel: ChannelId, scope: SlotScope, wiring: Wiring) -> OutputChannel:
    config = scope.config
    local = channel.target == scope.slot
    output = OutputChannel(
        channel,
        _hand_over(wiring.inputs[channel]) if local else _send(scope),
        batches_max=config.channel_batches_max,
        bytes_max=config.channel_bytes_max,
        target_rows=config.batch_rows_max,
        time_max_ms=config.channel_time_max_ms,
        now=lambda: scope.now_ms,
    )
    wiring.outputs[channel] = output
    if local:
        wiring.credits.connect(output)
    return output


def _hand_over(target: InputChannel) -> Callable[[ChannelId, int, Element], None]:
    def transmit(_: ChannelId, sequence: int, element: Element) -> None:
        target.push(sequence, element)

    return transmit


def _send(scope: SlotScope) -> Callable[[ChannelId, int, Element], None]:
    def transmit(channel: ChannelId, sequence: int, element: Element) -> None:
        scope.effects.append(Send(channel, sequence, element))

    return transmit


def _into(edge: Edge, slot: SlotIndex, parallelism: int) -> tuple[ChannelId, ...]:
    """Channels of ``edge`` that end in ``slot``."""
    if edge.partitioning is Partitioning.FORWARD:
        return (ChannelId(edge.number, slot, slot),)
    return tuple(ChannelId(edge.number, SlotIndex(source), slot) for source in range(parallelism))


def _out_of(edge: Edge, slot: SlotIndex, parallelism: int) -> tuple[ChannelId, ...]:
    if edge.partitioning is Partitioning.FORWARD:
        return (ChannelId(edge.number, slot, slot),)
    return tuple(ChannelId(edge.number, slot, SlotIndex(target)) for target in range(parallelism))


def unknown_channel(channel: ChannelId) -> SlotLost:
    return SlotLost(
        f"channel {channel} does not exist in this slot",
        hint="two slots run different graphs or attempts; the attempt restarts from the last checkpoint",
    )
