"""Simulated slot processes: the real loop, a network that keeps order per channel and nothing else, background uploads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from tidegate.checkpoint.layout import chunk_key, chunk_name, claim_key
from tidegate.model.config import QueryConfig
from tidegate.model.errors import Bug, CorruptSnapshot, SlotLost, TidegateError
from tidegate.model.ids import Attempt, ChannelId, SlotIndex
from tidegate.model.messages import DriverMessage, OperatorMetrics, SlotMessage, SlotReady, StartSubtasks
from tidegate.model.snapshot import ChunkHandle, OperatorSnapshot
from tidegate.operators.user_functions import LoadedFunction
from tidegate.plan.graph import JobGraph
from tidegate.runtime.effects import GrantCredit, Leave, Persist, Send, SlotEffect, Tell
from tidegate.runtime.persisting import NotStored, persist_states
from tidegate.runtime.slot import SlotRuntime
from tidegate.state.codec import decode_chunk
from tidegate.state.encoded import Encoded
from tidegate.testing.simulation.location import Location
from tidegate.testing.simulation.setting import Setting
from tidegate.testing.simulation.state_watch import StateWatch
from tidegate.testing.simulation.user_code import CALLS, load

INLINE_BYTES_MAX = 900
"""Far below the real limit, so that small simulated states are stored as chunks now and inlined then."""

CALLS_PER_BATCH = 20
"""About: a function of single rows fails as often per batch as one of batches."""

NAP_MS = (15, 60)
"""A loop that has nothing to do is called again after this long at least, as on a busy machine."""


@dataclass(slots=True)
class _Wire:
    """The order of one channel: nothing on it arrives before what was sent earlier."""

    free_ms: int = 0
    slow_until_ms: int = 0
    broken: bool = False


class SimulatedSlot:
    """One slot process of one attempt. ``report`` carries its messages to the driver that deployed it."""

    def __init__(
        self,
        setting: Setting,
        location: Location,
        config: QueryConfig,
        graph: JobGraph,
        attempt: Attempt,
        index: SlotIndex,
        peers: list[SimulatedSlot],
        report: Callable[[DriverMessage], None],
        failed: Callable[[SlotIndex, TidegateError | None], None],
    ) -> None:
        self._setting = setting
        self._agenda = setting.agenda
        self._watch = StateWatch(setting.tally)
        self._location = location
        self._config = config
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
        self.clock = setting.clock()
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
            case StartSubtasks():
                self._report(SlotReady(attempt=self._attempt, slot=self.index))
            case _ if self._runtime is None:
                return
            case _:
                self._with_runtime(lambda runtime: runtime.control(message, self.clock.now_ms()))

    def _start(self, message: StartSubtasks) -> None:
        self._runtime = SlotRuntime(
            self._graph,
            self.index,
            self._attempt,
            self._config,
            self._setting.connectors(self._location, self.who),
            message.restored,
            self._read_chunk,
            now_ms=self.clock.now_ms(),
            load=self._load,
            entries=self._watch.entries,
        )
        for early in self._early:
            early(self._runtime)
        self._early.clear()
        self._schedule_turn(0)

    def _load(self, command: bytes) -> Callable[..., object] | LoadedFunction:
        function = load(command)
        if isinstance(function, LoadedFunction) or self._config.dead_letter:
            # With dead letters whatever a function raises says that the row is bad, for ever.
            return function
        calls = CALLS_PER_BATCH if command in CALLS else 1

        def flaky(*arguments: object) -> object:
            if self._agenda.chance(self._setting.faults.user_function_raises / calls):
                self._setting.tally.fault("user_function_raises")
                raise ConnectionError("the service that the function calls does not answer")
            return function(*arguments)

        return flaky

    def _read_chunk(self, handle: ChunkHandle) -> pl.DataFrame:
        data = handle.data if handle.data is not None else self._location.store.read(chunk_key(handle.name))
        if data is None:
            if claim_key(Attempt(self._attempt + 1)) not in self._location.store.objects:
                # A fenced attempt may come too late; nobody else.
                self._setting.violate(f"{self.who} restores {handle.name}, which was deleted")
            raise CorruptSnapshot(f"{handle.name} is missing")
        rows = decode_chunk(data, handle.name)
        self._watch.restored(handle, rows)
        return rows

    @property
    def metrics(self) -> tuple[OperatorMetrics, ...]:
        """What it would tell a person who asked right now."""
        return self._runtime.progress().metrics if self.alive and self._runtime is not None else ()

    # --- trouble ----------------------------------------------------------------------------------------------

    def slow_channel(self, duration_ms: int) -> bool:
        """One channel from here needs long for a while. False: there is none."""
        wire = self._random_wire()
        if wire is not None:
            wire.slow_until_ms = self._agenda.now_ms + duration_ms
        return wire is not None

    def break_channel(self) -> bool:
        """A connection from here breaks. Both ends learn it at some moment, and the attempt ends."""
        wire = self._random_wire()
        if wire is None:
            return False
        wire.broken = True
        self._agenda.note(self.who, "loses a connection")
        self._agenda.soon(0, 2_000, lambda: self._guard(self._lose))
        return True

    def _random_wire(self) -> _Wire | None:
        return self._agenda.random.choice(list(self._wires.values())) if self._wires else None

    def _lose(self) -> None:
        if self.alive:
            raise SlotLost(f"{self.who} lost the connection to another slot")

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
        self._guard(lambda: self._perform_all(runtime.turn(self.clock.now_ms())))
        if not self.alive:
            return
        if runtime.has_work:
            self._schedule_turn(self._agenda.random.randint(0, 3))
        elif (wakeup := runtime.next_wakeup_ms) is not None and wakeup != float("inf"):
            nap_ms = self._agenda.random.randint(*NAP_MS)
            self._schedule_turn(int(max(nap_ms, wakeup - self.clock.now_ms())))

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
                    delay_ms = self._location.store.latency_ms() + self._agenda.random.randint(0, 300)
                    self._agenda.after(delay_ms, lambda one=effect, took=delay_ms: self._upload(one, took))
                case Tell(message):
                    self._report(message)
                case Leave(clean, reason):
                    self._agenda.note(self.who, f"leaves ({'clean' if clean else reason})")
                    self.alive = False
                    return

    def _ship(self, channel: ChannelId, delivery: Callable[[SlotRuntime], None], peer: SimulatedSlot) -> None:
        wire = self._wires.setdefault(channel, _Wire())
        if wire.broken:
            return
        highest_ms = 1_500 if wire.slow_until_ms > self._agenda.now_ms else 30
        wire.free_ms = max(wire.free_ms, self._agenda.now_ms + self._agenda.random.randint(0, highest_ms))
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

    def _upload(self, persist: Persist, took_ms: int) -> None:
        """Not stopped by a freeze of the loop: it has a thread of its own, and may land after the attempt is over."""
        if not self.alive and not self._agenda.chance(0.3):
            return

        def put(name: str, data: Encoded) -> None:
            self._location.store.create(chunk_key(name), data.joined())

        try:
            done = persist_states(
                persist,
                lambda operator, subtask, checkpoint, n: chunk_name(operator, self._attempt, subtask, checkpoint, n),
                put,
                INLINE_BYTES_MAX,
            )
        except NotStored as error:
            reason, chunks = error.reason, error.chunks
            if self.alive:
                self._with_runtime(
                    lambda runtime: runtime.persist_failed(persist.checkpoint, persist.subtask, reason, chunks)
                )
            return
        if not self.alive:
            return
        snapshots: tuple[OperatorSnapshot, ...] = done.snapshots
        self._watch.stored(snapshots)
        self._with_runtime(
            lambda runtime: runtime.stored(persist.checkpoint, persist.subtask, snapshots, async_ms=float(took_ms))
        )

    def _guard(self, do: Callable[[], None]) -> None:
        try:
            do()
        except Bug:
            raise
        except TidegateError as error:
            self.kill(error.message)
            self._failed(self.index, error)
