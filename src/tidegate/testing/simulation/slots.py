"""Simulated slot processes: the real loop, a network that keeps order per channel and nothing else, background uploads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from tidegate.checkpoint.layout import chunk_key, chunk_name
from tidegate.model.errors import Bug, CorruptSnapshot, TidegateError
from tidegate.model.ids import Attempt, ChannelId, SlotIndex
from tidegate.model.messages import DriverMessage, SlotMessage, StartSubtasks
from tidegate.model.snapshot import ChunkHandle, OperatorSnapshot
from tidegate.plan.graph import JobGraph
from tidegate.runtime.effects import GrantCredit, Leave, Persist, Send, SlotEffect, Tell
from tidegate.runtime.persisting import persist_states
from tidegate.runtime.slot import SlotRuntime
from tidegate.state.codec import decode_chunk
from tidegate.testing.simulation.setting import Setting

INLINE_BYTES_MAX = 900
"""Far below the real limit, so that small simulated states are stored as chunks now and inlined then."""


@dataclass(slots=True)
class _Wire:
    """The order of one channel: nothing on it arrives before what was sent earlier."""

    free_ms: int = 0


class SimulatedSlot:
    """One slot process of one attempt. ``report`` carries its messages to the driver that deployed it."""

    def __init__(
        self,
        setting: Setting,
        graph: JobGraph,
        attempt: Attempt,
        index: SlotIndex,
        peers: list[SimulatedSlot],
        report: Callable[[DriverMessage], None],
        failed: Callable[[SlotIndex, TidegateError | None], None],
    ) -> None:
        self._setting = setting
        self._agenda = setting.agenda
        self._graph = graph
        self._attempt = attempt
        self._peers = peers
        self._report = report
        self._failed = failed
        self._runtime: SlotRuntime | None = None
        self._wires: dict[ChannelId, _Wire] = {}
        self._early: list[Callable[[SlotRuntime], None]] = []
        self._turn_due: int | None = None
        self._frozen_until_ms = 0
        self.index = index
        self.alive = True
        self.who = f"slot {attempt}.{index}"

    # --- life -------------------------------------------------------------------------------------------------

    def kill(self, why: str) -> None:
        if self.alive:
            self._agenda.note(self.who, f"dies: {why}")
            self.alive = False
            self._runtime = None

    def freeze(self, duration_ms: int) -> None:
        """Goes on later, as if nothing had happened."""
        self._agenda.note(self.who, f"freezes for {duration_ms} ms")
        self._frozen_until_ms = self._agenda.now_ms + duration_ms

    def tell(self, message: SlotMessage) -> None:
        """A control message from the driver arrives."""
        if not self.alive:
            return
        if self._frozen_until_ms > self._agenda.now_ms:
            self._agenda.after(self._frozen_until_ms - self._agenda.now_ms, lambda: self.tell(message))
            return
        match message:
            case StartSubtasks() if self._runtime is None:
                self._guard(lambda: self._start(message))
            case _ if self._runtime is None:
                return
            case _:
                self._with_runtime(lambda runtime: runtime.control(message, self._agenda.now_ms))

    def _start(self, message: StartSubtasks) -> None:
        self._runtime = SlotRuntime(
            self._graph,
            self.index,
            self._attempt,
            self._setting.config,
            self._setting.connectors,
            message.restored,
            self._read_chunk,
            now_ms=self._agenda.now_ms,
        )
        for early in self._early:
            early(self._runtime)
        self._early.clear()
        self._schedule_turn(0)

    def _read_chunk(self, handle: ChunkHandle) -> pl.DataFrame:
        data = handle.data if handle.data is not None else self._setting.store.objects.get(chunk_key(handle.name))
        if data is None:
            self._setting.violate(f"{self.who} restores {handle.name}, which was deleted")
            raise CorruptSnapshot(f"{handle.name} is missing")
        return decode_chunk(data, handle.name)

    # --- work -------------------------------------------------------------------------------------------------

    def _schedule_turn(self, delay_ms: int) -> None:
        due = self._agenda.now_ms + delay_ms
        if self._turn_due is None or due < self._turn_due:
            self._turn_due = due
            self._agenda.after(delay_ms, lambda: self._turn(due))

    def _turn(self, due: int) -> None:
        if not self.alive or self._turn_due != due or self._runtime is None:
            return
        if self._frozen_until_ms > self._agenda.now_ms:
            self._turn_due = None
            self._schedule_turn(self._frozen_until_ms - self._agenda.now_ms)
            return
        self._turn_due = None
        runtime = self._runtime
        self._guard(lambda: self._perform_all(runtime.turn(self._agenda.now_ms)))
        if not self.alive:
            return
        if runtime.has_work:
            self._schedule_turn(self._agenda.random.randint(0, 3))
        elif (wakeup := runtime.next_wakeup_ms) is not None and wakeup != float("inf"):
            self._schedule_turn(max(1, int(wakeup - self._agenda.now_ms)))

    def _perform_all(self, effects: tuple[SlotEffect, ...]) -> None:
        for effect in effects:
            match effect:
                case Send(channel, sequence, element):
                    peer = self._peers[channel.target]
                    self._ship(
                        channel, lambda runtime, c=channel, s=sequence, e=element: runtime.deliver(c, s, e), peer
                    )
                case GrantCredit(channel, batches, size_bytes):
                    peer = self._peers[channel.source]
                    grant = lambda runtime, c=channel, b=batches, s=size_bytes: runtime.credit(c, b, s)  # noqa: E731
                    self._agenda.soon(0, 20, lambda p=peer, g=grant: p.arrive(g))
                case Persist():
                    self._agenda.soon(1, 400, lambda one=effect: self._upload(one))
                case Tell(message):
                    self._report(message)
                case Leave(clean, reason):
                    self._agenda.note(self.who, f"leaves ({'clean' if clean else reason})")
                    self.alive = False
                    return

    def _ship(self, channel: ChannelId, delivery: Callable[[SlotRuntime], None], peer: SimulatedSlot) -> None:
        wire = self._wires.setdefault(channel, _Wire())
        wire.free_ms = max(wire.free_ms, self._agenda.now_ms + self._agenda.random.randint(0, 30))
        self._agenda.after(wire.free_ms - self._agenda.now_ms, lambda: peer.arrive(delivery))

    def arrive(self, delivery: Callable[[SlotRuntime], None]) -> None:
        """Something from another slot. A slot that has not started yet keeps it, as its socket would."""
        if not self.alive:
            return
        if self._frozen_until_ms > self._agenda.now_ms:
            self._agenda.after(self._frozen_until_ms - self._agenda.now_ms, lambda: self.arrive(delivery))
        elif self._runtime is None:
            self._early.append(delivery)
        else:
            self._with_runtime(delivery)

    def _with_runtime(self, do: Callable[[SlotRuntime], None]) -> None:
        runtime = self._runtime
        assert runtime is not None
        self._guard(lambda: do(runtime))
        if self.alive:
            self._schedule_turn(self._agenda.random.randint(0, 3))

    def _upload(self, persist: Persist) -> None:
        """Not stopped by a freeze of the loop: it has a thread of its own, and may land after the attempt is over."""
        if not self.alive:
            return
        started_ms = self._agenda.now_ms

        def put(name: str, data: bytes) -> None:
            self._setting.store.create(chunk_key(name), data)

        try:
            done = persist_states(
                persist,
                lambda operator, subtask, checkpoint, n: chunk_name(operator, self._attempt, subtask, checkpoint, n),
                put,
                INLINE_BYTES_MAX,
            )
        except TidegateError as error:
            reason = str(error)
            self._with_runtime(lambda runtime: runtime.persist_failed(persist.checkpoint, persist.subtask, reason))
            return
        snapshots: tuple[OperatorSnapshot, ...] = done.snapshots
        self._with_runtime(
            lambda runtime: runtime.stored(
                persist.checkpoint, persist.subtask, snapshots, async_ms=float(self._agenda.now_ms - started_ms)
            )
        )

    def _guard(self, do: Callable[[], None]) -> None:
        try:
            do()
        except Bug:
            raise
        except TidegateError as error:
            self.kill(error.message)
            self._failed(self.index, error)
