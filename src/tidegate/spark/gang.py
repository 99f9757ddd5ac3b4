"""All slots of one attempt, seen from the driver: from the submitted stage to the last of them leaving.

Belongs to the job master's loop. It turns what slots say into the coordinator's events and decides nothing about checkpoints.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import zmq
from pyspark.sql import SparkSession

from tidegate.checkpoint.events import AttemptFailed, Event, Failure, SlotSaid, SlotsFree, SlotsReady
from tidegate.model.config import QueryConfig
from tidegate.model.errors import CorruptSnapshot, InvalidQuery, TidegateError
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex
from tidegate.model.messages import (
    DriverMessage,
    EndAttempt,
    SlotAlive,
    SlotFailed,
    SlotLeft,
    SlotMessage,
    SlotProgress,
    SlotReady,
    SlotRegistered,
    SourceExhausted,
    SplitsWanted,
    StartSubtasks,
    SubtaskAcked,
    SubtaskDeclined,
)
from tidegate.model.snapshot import OperatorSnapshot
from tidegate.spark.barrier_job import BarrierJob
from tidegate.spark.checks import is_one_host
from tidegate.spark.clock import monotonic_ms
from tidegate.spark.copies import started_again
from tidegate.spark.task import Greeting, slot_function
from tidegate.spark.versions import refuse_other_versions, running_versions
from tidegate.transport.control import DriverControl
from tidegate.transport.endpoints import DriverEndpoints
from tidegate.transport.guard import KeyGuard
from tidegate.transport.heartbeat import DriverHeartbeat

log = logging.getLogger("tidegate.slots")

STARTING_GRACE_MS = 10_000
"""The deploy timeout is for finding free task slots; slots that were found late still need time to come up."""

LEAVE_TIMEOUT_MS = 2_000
"""How long slots may take to leave when told to, before their Spark job is cancelled."""

LAST_SLOTS_GRACE_MS = 500
"""After the Spark job has ended: how long to wait for slots that said nothing. Those killed never will."""


TERMINAL = frozenset({InvalidQuery.code, CorruptSnapshot.code})
"""Failures of a slot that the next attempt would meet again: it would run the same query on the same files."""


@dataclass(frozen=True, slots=True)
class JobEnded:
    """The Spark job of ``attempt`` is over."""

    attempt: Attempt
    failure: TidegateError | None


@dataclass(frozen=True, slots=True)
class SlotSilent:
    attempt: Attempt
    slot: SlotIndex


GangEvent: TypeAlias = JobEnded | SlotSilent


class Gang:
    """``ran_before``: the query has run on this cluster, so that what it lacks now (an executor) may come back.

    ``post`` takes what other threads have to say, ``tell`` what slots said: both put it into the loop's inbox.
    """

    def __init__(
        self,
        session: SparkSession,
        config: QueryConfig,
        attempt: Attempt,
        parallelism: int,
        work: bytes,
        restored: tuple[OperatorSnapshot, ...],
        checkpoint: CheckpointId | None,
        *,
        name: str,
        ran_before: bool,
        post: Callable[[GangEvent], None],
        tell: Callable[[Event], None],
        on_progress: Callable[[SlotProgress], None],
        on_alive: Callable[[SlotAlive], None],
    ) -> None:
        self.attempt = attempt
        self._ran_before = ran_before
        self._config = config
        self._parallelism = parallelism
        self._restored = restored
        self._checkpoint = checkpoint
        self._tell = tell
        self._on_progress = on_progress
        self._registered: dict[SlotIndex, SlotRegistered] = {}
        self._ready: set[SlotIndex] = set()
        self._left: set[SlotIndex] = set()
        self._started = False
        self._failed = False
        self._free = False
        self._ending_since_ms: int | None = None
        self._job_ended_ms: int | None = None
        self._cancelled = False
        self._deploy_deadline_ms = monotonic_ms() + config.deploy_timeout_ms + STARTING_GRACE_MS

        conf = session.sparkContext.getConf()
        self._one_host = is_one_host(session)
        self._endpoints = (
            DriverEndpoints.on_one_host()
            if self._one_host
            else DriverEndpoints.between_hosts(conf.get("spark.driver.host") or "127.0.0.1")
        )
        keys = self._endpoints.keys
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._guard = KeyGuard(self._context, keys.slot_public) if keys else None
        self._control = DriverControl(self._context, self._endpoints)
        self._heartbeat = DriverHeartbeat(
            self._context,
            self._endpoints,
            attempt,
            config.heartbeat_interval_ms,
            config.silence_timeout_ms,
            lambda slot: post(SlotSilent(attempt, slot)),
            on_alive,
        )
        greeting = Greeting(
            attempt=attempt,
            control=self._control.address,
            heartbeat=self._heartbeat.address,
            directory=self._endpoints.directory,
            keys=(keys.driver_public, keys.slot_public, keys.slot_secret) if keys else None,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            silence_timeout_ms=config.silence_timeout_ms,
        )
        self._job = BarrierJob(
            session,
            parallelism,
            slot_function(dataclasses.asdict(greeting), work),
            group=f"tidegate-{name}-{attempt}",
            description=f"tidegate {name}, attempt {attempt}",
            slots_timeout_ms=config.deploy_timeout_ms,
            on_end=lambda failure: post(JobEnded(attempt, failure)),
        )

    @property
    def open(self) -> bool:
        """Whether the socket may still be read."""
        return not self._free

    @property
    def socket(self) -> zmq.Socket[bytes]:
        return self._control.socket

    @property
    def pids(self) -> dict[SlotIndex, int]:
        """Process of each slot that has registered."""
        return {slot: registered.pid for slot, registered in sorted(self._registered.items())}

    def send(self, message: SlotMessage, slots: tuple[SlotIndex, ...] | None) -> None:
        if not self._free:
            self._control.send_all(sorted(self._registered) if slots is None else slots, message)

    def receive(self) -> None:
        """Reads all that slots have said."""
        if self._free:
            return
        for message in self._control.receive():
            if message.attempt == self.attempt:
                self._on_message(message)
            if self._free:
                return  # The last slot has left: the socket is closed.

    def on_event(self, event: GangEvent) -> None:
        now_ms = monotonic_ms()
        match event:
            case JobEnded(_, failure):
                self._job_ended_ms = now_ms
                if self._ending_since_ms is None:
                    if failure is None:
                        self._fail(Failure("SLOT_LOST", "the Spark job of the slots ended before the query did"))
                    else:
                        told = to_failure(failure)
                        self._fail(dataclasses.replace(told, retryable=True) if self._ran_before else told)
            case SlotSilent(_, slot) if self._ending_since_ms is None:  # Who was told to leave may be silent.
                where = self._registered[slot].host if slot in self._registered else "an executor"
                silence = self._config.silence_timeout_ms
                self._fail(Failure("SLOT_LOST", f"slot {slot} on {where} has been silent for {silence} ms"))
            case SlotSilent():
                pass
        self.on_clock(now_ms)

    def on_clock(self, now_ms: int) -> None:
        missing = self._parallelism - len(self._registered)
        if missing and not self._failed and self._ending_since_ms is None and now_ms > self._deploy_deadline_ms:
            self._fail(
                Failure(
                    "UNAVAILABLE",
                    f"{missing} of {self._parallelism} slots did not come up within {self._config.deploy_timeout_ms} ms",
                    hint="is another job using the task slots? Raise option deployTimeout if the cluster is only slow",
                )
            )
        if self._ending_since_ms is None or self._free:
            return
        if self._job_ended_ms is None:
            if now_ms > self._ending_since_ms + LEAVE_TIMEOUT_MS and not self._cancelled:
                self._cancelled = True
                log.info("attempt %s: slots do not leave by themselves, cancelling their Spark job", self.attempt)
                self._job.cancel("the attempt has ended")
        elif self._all_gone() or now_ms > self._job_ended_ms + LAST_SLOTS_GRACE_MS:
            self._free = True
            self._close()
            self._tell(SlotsFree(now_ms, self.attempt))

    def _all_gone(self) -> bool:
        """Whether every slot has said goodbye or, where we can see it, has no process any more."""
        return all(
            slot in self._left or (self._one_host and not Path(f"/proc/{registered.pid}").exists())
            for slot, registered in self._registered.items()
        )

    def end(self, clean: bool, reason: str) -> None:
        """All slots leave. ``SlotsFree`` follows once the Spark job is over."""
        if self._ending_since_ms is not None:
            return
        self._ending_since_ms = monotonic_ms()
        self.send(EndAttempt(attempt=self.attempt, clean=clean, reason=reason), None)
        if len(self._registered) < self._parallelism and self._job_ended_ms is None:
            # Some are still on their way and will not hear it: their tasks must not wait for a driver that is gone.
            self._cancelled = True
            self._job.cancel(reason or "the attempt has ended")
        self.on_clock(self._ending_since_ms)

    def _on_message(self, message: DriverMessage) -> None:
        now_ms = monotonic_ms()
        match message:
            case SlotRegistered():
                again = started_again(self._registered.get(message.slot), message)
                if again is not None:
                    self._fail(again)
                    reason = "Spark started this slot a second time"
                    self._control.send(message.slot, EndAttempt(attempt=self.attempt, clean=False, reason=reason))
                    return
                self._registered[message.slot] = message
                if len(self._registered) == self._parallelism and not self._started and self._ending_since_ms is None:
                    self._start()
            case SlotReady():
                self._ready.add(message.slot)
                if len(self._ready) == self._parallelism:
                    self._tell(SlotsReady(now_ms, self.attempt))
            case SubtaskAcked() | SubtaskDeclined() | SplitsWanted() | SourceExhausted():
                self._tell(SlotSaid(now_ms, message))
            case SlotProgress():
                self._on_progress(message)
            case SlotFailed(code=code, message=text, hint=hint, operator=operator, position=position):
                self._fail(
                    Failure(code, text, hint=hint, operator=operator, position=position, retryable=code not in TERMINAL)
                )
            case SlotLeft():
                self._left.add(message.slot)
                self.on_clock(now_ms)
            case SlotAlive():
                pass

    def _start(self) -> None:
        self._started = True
        slots = [self._registered[slot] for slot in sorted(self._registered)]
        try:
            refuse_other_versions(running_versions(), ((slot.host, slot.versions) for slot in slots))
        except InvalidQuery as refused:
            self._fail(to_failure(refused))
            return
        self.send(
            StartSubtasks(
                attempt=self.attempt,
                addresses=tuple(slot.address for slot in slots),
                restored=self._restored,
                checkpoint=self._checkpoint,
            ),
            None,
        )

    def _fail(self, failure: Failure) -> None:
        """The first failure of an attempt is the cause; what follows it are consequences."""
        if not self._failed:
            self._failed = True
            self._tell(AttemptFailed(monotonic_ms(), self.attempt, failure))

    def _close(self) -> None:
        self._heartbeat.stop()
        self._control.close()
        if self._guard is not None:
            self._guard.stop()
        self._context.term()
        self._endpoints.remove()


def to_failure(error: TidegateError) -> Failure:
    return Failure(error.code, error.message, hint=error.hint, retryable=not isinstance(error, InvalidQuery))
