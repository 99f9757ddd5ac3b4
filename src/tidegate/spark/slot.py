"""The entry of a slot inside its Spark task, and the loop around ``SlotRuntime``: sockets in, effects out.

The Python worker is *dirty*: Spark reuses it for job after job. So nothing here lives in a module, every thread is joined, every
socket closed and the environment left as it was; a worker that cannot do that ends its process.
"""

from __future__ import annotations

import gc
import math
import os
import pickle
import queue
import socket as sockets
import time
import traceback
from collections.abc import Iterator
from functools import partial
from typing import Any, TypeAlias

import zmq

from tidegate.connectors.home import Home, RealConnectors
from tidegate.model.errors import Bug, SlotLost, TidegateError
from tidegate.model.ids import Attempt, SlotIndex
from tidegate.model.messages import (
    EndAttempt,
    SlotFailed,
    SlotLeft,
    SlotMessage,
    SlotRegistered,
    StartSubtasks,
)
from tidegate.model.snapshot import KeyGroupRange
from tidegate.runtime.effects import GrantCredit, Leave, Persist, Send, SlotEffect, Tell
from tidegate.runtime.slot import SlotRuntime
from tidegate.spark.functions import load
from tidegate.spark.read_ahead import ReadAhead
from tidegate.spark.task import Greeting, SlotWork
from tidegate.spark.uploads import Uploaded, Uploader, UploadFailed
from tidegate.spark.versions import running_versions
from tidegate.state.keygroups import range_of
from tidegate.storage.open import open_store
from tidegate.storage.output_directory import open_directory
from tidegate.storage.rocksdb_entries import backend_factory
from tidegate.transport.bell import Bell
from tidegate.transport.control import SlotControl
from tidegate.transport.data import CreditReceived, DataPlane, Received
from tidegate.transport.endpoints import CurveKeys, SlotEndpoints
from tidegate.transport.guard import KeyGuard
from tidegate.transport.heartbeat import LAST_WORDS_LINGER_MS, SlotHeartbeat

UPLOAD_STOP_TIMEOUT_S = 1.0


class DriverLost:
    """Put into the mailbox by the heartbeat thread."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


Mail: TypeAlias = Uploaded | UploadFailed | DriverLost


def run_slot(greeting: dict[str, Any], work: bytes) -> Iterator[Any]:
    """Runs one slot until its attempt ends. Yields no rows: the stage has no output."""
    from pyspark import BarrierTaskContext

    context = BarrierTaskContext.get()
    index = context.partitionId()
    host = context.getTaskInfos()[index].address.rpartition(":")[0] or sockets.gethostname()
    environment = dict(os.environ)
    try:
        if not SlotProcess(Greeting(**greeting), work, SlotIndex(index), host).run():
            os._exit(1)  # A thread hangs in an upload: this worker must not be reused.
    finally:
        if os.environ != environment:
            os.environ.clear()
            os.environ.update(environment)
    yield from ()


class SlotProcess:
    """One slot of one attempt: owns its sockets and threads from the first greeting to the last word."""

    def __init__(self, greeting: Greeting, work: bytes, slot: SlotIndex, host: str) -> None:
        self._greeting = greeting
        self._work = work
        self._slot = slot
        self._host = host
        self._attempt = Attempt(greeting.attempt)
        self._mailbox: queue.SimpleQueue[Mail] = queue.SimpleQueue()
        self._runtime: SlotRuntime | None = None
        self._uploader: Uploader | None = None
        self._progress_due_ms = 0.0

    def run(self) -> bool:
        """Whether everything that was started has ended."""
        greeting = self._greeting
        endpoints = SlotEndpoints(
            greeting.control,
            greeting.heartbeat,
            greeting.directory,
            CurveKeys(*greeting.keys) if greeting.keys else None,
        )
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        guard = KeyGuard(self._context, endpoints.keys.slot_public) if endpoints.keys else None
        self._bell = Bell()
        self._control = SlotControl(self._context, endpoints, self._attempt, self._slot)
        self._data = DataPlane(self._context, endpoints, self._attempt, self._slot, self._host)
        heartbeat = SlotHeartbeat(
            self._context,
            endpoints,
            self._attempt,
            self._slot,
            greeting.heartbeat_interval_ms,
            greeting.silence_timeout_ms,
            lambda reason: self._drop_mail(DriverLost(reason)),
            lambda: self._runtime.inside() if self._runtime is not None else None,
            self._overdue,
        )
        clean = True
        driver_lost = False
        try:
            self._loop()
        except DriverGone:
            driver_lost = True
        except BaseException as failure:  # noqa: BLE001  whatever ended this slot, the driver must hear of it
            self._control.send(self._describe(failure))
        finally:
            if self._runtime is not None:
                if not driver_lost:
                    self._control.send(self._runtime.progress())
                self._runtime.close()
            if self._uploader is not None:
                clean = self._uploader.stop(UPLOAD_STOP_TIMEOUT_S)
            heartbeat.stop()
            if not driver_lost:
                self._control.send(SlotLeft(attempt=self._attempt, slot=self._slot))
            self._data.close()
            self._control.close(0 if driver_lost else LAST_WORDS_LINGER_MS)
            self._bell.close()
            if guard is not None:
                guard.stop()
            if clean:
                self._context.term()
            gc.unfreeze()
        return clean

    # --- the loop --------------------------------------------------------------------------------------------------

    def _loop(self) -> None:
        poller = zmq.Poller()
        bell = self._bell.fileno()
        poller.register(self._control.socket, zmq.POLLIN)
        poller.register(self._data.socket, zmq.POLLIN)
        poller.register(bell, zmq.POLLIN)
        self._control.send(
            SlotRegistered(
                attempt=self._attempt,
                slot=self._slot,
                address=self._data.address,
                pid=os.getpid(),
                host=self._host,
                versions=running_versions(),
            )
        )
        while True:
            ready = dict(poller.poll(self._patience_ms()))
            if bell in ready:
                self._bell.hush()
                self._read_mail()
            if self._control.socket in ready:
                for message in self._control.receive():
                    if self._on_control(message):
                        return
            runtime = self._runtime
            if runtime is None:
                continue
            if self._data.socket in ready:
                for arrival in self._data.receive():
                    match arrival:
                        case Received(channel, sequence, element):
                            runtime.deliver(channel, sequence, element)
                        case CreditReceived(channel, batches, size_bytes):
                            runtime.credit(channel, batches, size_bytes, time.monotonic() * 1000)
            now_ms = time.monotonic() * 1000
            for effect in runtime.turn(now_ms):
                if self._perform(effect):
                    return
            if now_ms >= self._progress_due_ms:
                self._progress_due_ms = now_ms + self._task.config.progress_interval_ms
                self._control.send(runtime.progress())

    def _patience_ms(self) -> int | None:
        """How long to wait for something to arrive: not at all while there is work."""
        if self._runtime is None:
            return None
        if self._runtime.has_work:
            return 0
        until_ms = self._progress_due_ms
        wakeup_ms = self._runtime.next_wakeup_ms
        if wakeup_ms is not None:
            until_ms = min(until_ms, wakeup_ms)
        # Rounded up: a poll that ends just before the moment would spin until it has come.
        return math.ceil(max(0.0, until_ms - time.monotonic() * 1000))

    def _perform(self, effect: SlotEffect) -> bool:
        """Whether that was the last effect."""
        match effect:
            case Send(channel, sequence, element):
                self._data.send(channel, sequence, element)
            case GrantCredit(channel, batches, size_bytes):
                self._data.grant(channel, batches, size_bytes)
            case Persist():
                assert self._uploader is not None
                self._uploader.submit(effect)
            case Tell(message):
                self._control.send(message)
            case Leave():
                return True
        return False

    def _on_control(self, message: SlotMessage) -> bool:
        """Whether the slot must leave."""
        if self._runtime is not None:
            self._runtime.control(message, time.monotonic() * 1000)
            return False
        match message:
            case StartSubtasks():
                self._start(message)
            case EndAttempt():
                return True
            case _:
                pass  # Nothing is triggered or assigned before every slot has said SlotReady.
        return False

    def _start(self, start: StartSubtasks) -> None:
        self._task: SlotWork = pickle.loads(self._work)
        store = open_store(self._task.location, self._task.storage)
        self._data.connect(start.addresses)
        puts_max = self._task.storage.number("uploads")
        self._uploader = Uploader(store, self._attempt, self._slot, self._drop_mail, puts_max)
        with ReadAhead(store, start.restored, self._groups(), puts_max) as chunks:
            self._runtime = SlotRuntime(
                self._task.graph,
                self._slot,
                self._attempt,
                self._task.config,
                RealConnectors(
                    self._task.config,
                    partial(open_directory, options=self._task.storage),
                    Home(self._task.pipeline, store),
                ),
                restored=start.restored,
                chunks=chunks,
                now_ms=time.monotonic() * 1000,
                clock=lambda: time.monotonic() * 1000,
                load=load,
                wall_offset_ms=(time.time() - time.monotonic()) * 1000,
                entries=backend_factory(self._task.config.state_backend, self._attempt, self._slot),
            )
        # What exists now lives as long as the slot: the collector need not walk it again and again.
        gc.collect()
        gc.freeze()

    def _groups(self) -> KeyGroupRange:
        """Key groups of this slot, in every stage."""
        graph = self._task.graph
        return range_of(self._slot, graph.parallelism, graph.max_parallelism)

    # --- other threads ---------------------------------------------------------------------------------------------

    def _drop_mail(self, mail: Mail) -> None:
        """Called by other threads: leaves the mail and rings."""
        self._mailbox.put(mail)
        self._bell.ring()

    def _overdue(self) -> SlotFailed | None:
        """Called by the heartbeat's thread: what the loop cannot say any more, because it never comes back."""
        runtime = self._runtime
        stuck = runtime.stuck(time.monotonic() * 1000) if runtime is not None else None
        return self._describe(stuck) if stuck is not None else None

    def _read_mail(self) -> None:
        while not self._mailbox.empty():
            match self._mailbox.get():
                case DriverLost(reason=reason):
                    raise DriverGone(reason)
                case Uploaded(checkpoint, subtask, snapshots, async_ms, uploaded_bytes) if self._runtime is not None:
                    self._runtime.stored(
                        checkpoint, subtask, snapshots, async_ms=async_ms, uploaded_bytes=uploaded_bytes
                    )
                case UploadFailed(checkpoint, subtask, reason, chunks) if self._runtime is not None:
                    self._runtime.persist_failed(checkpoint, subtask, reason, chunks)
                case _:
                    pass

    def _describe(self, failure: BaseException) -> SlotFailed:
        if not isinstance(failure, TidegateError):
            text = "".join(traceback.format_exception(failure))
            failure = Bug(f"slot {self._slot} failed: {failure}\n{text}", hint="please report it with this traceback")
        return SlotFailed(
            attempt=self._attempt,
            slot=self._slot,
            code=failure.code,
            message=failure.message,
            hint=failure.hint,
            operator=str(getattr(failure, "operator", "")),
            position=str(getattr(failure, "position", "")),
        )


class DriverGone(SlotLost):
    """Nobody is left to tell: leave without a word."""
