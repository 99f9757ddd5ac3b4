"""The job master of one pipeline: one loop around the coordinator's ``step``, and hands for what it asks.

Events come in from slots, stores, sinks, discovery and people; effects go out to the same. The loop never blocks: whatever may
take time runs in a lane or a thread of its own and posts its outcome.
"""

from __future__ import annotations

import itertools
import logging
import pickle
import secrets
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeAlias

import zmq
from pyspark.sql import SparkSession

from tidegate.checkpoint import effects as fx
from tidegate.checkpoint import storing
from tidegate.checkpoint.events import (
    Afterwards,
    AttemptFailed,
    CheckpointRequested,
    ClaimWritten,
    ClockTicked,
    Event,
    Failure,
    SavepointRequested,
    SinksCommitted,
    SinksFailed,
    SinksSwept,
    SlotsFree,
    SlotsReady,
    Started,
    StopRequested,
)
from tidegate.checkpoint.lifecycle import step
from tidegate.checkpoint.phases import Active, Ending, New, RestartAt, State
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.ports import BlobStore
from tidegate.checkpoint.savepoint import perform_export
from tidegate.checkpoint.statistics import Outcome as CheckpointOutcome
from tidegate.model.config import QueryConfig
from tidegate.model.errors import Bug, TidegateError, Unavailable
from tidegate.model.ids import Attempt, CheckpointId, OperatorId
from tidegate.model.messages import ReportProgress, SlotProgress
from tidegate.operators.ports import SinkCommitter, SplitEnumerator
from tidegate.plan.graph import JobGraph
from tidegate.spark.clock import monotonic_ms
from tidegate.spark.discovery import Discovery
from tidegate.spark.gang import Gang, GangEvent, JobEnded, SlotSilent
from tidegate.spark.health import Health
from tidegate.spark.history import HistoryKeeper
from tidegate.spark.lanes import Lane
from tidegate.spark.status import JobStatus
from tidegate.spark.task import SlotWork
from tidegate.spark.versions import running_versions
from tidegate.spark.watchdog import Watchdog
from tidegate.storage.open import open_store
from tidegate.transport.bell import Bell

log = logging.getLogger("tidegate.driver")

TICK_MS = 50


@dataclass(frozen=True, slots=True)
class LaneFailed:
    """Work off the loop raised what it should have reported."""

    failure: Exception


@dataclass(frozen=True, slots=True)
class ReportsWanted:
    """Somebody wants to hear from all slots now."""

    number: int
    poll: bool


Posted: TypeAlias = Event | GangEvent | LaneFailed | ReportsWanted


class JobMaster:
    """Runs one pipeline from its first claim to its end. Public methods are thread-safe."""

    def __init__(
        self,
        session: SparkSession,
        graph: JobGraph,
        config: QueryConfig,
        plan: CheckpointPlan,
        store: BlobStore,
        location: str,
        *,
        name: str,
        description: str = "",
        enumerators: Callable[[], Mapping[OperatorId, SplitEnumerator]],
        committers: Mapping[OperatorId, SinkCommitter],
        accept_duplicates: bool = False,
        on_committed: Callable[[CheckpointId], None] | None = None,
    ) -> None:
        self._session = session
        self._graph = graph
        self._config = config
        self._plan = plan
        self._store = store
        self._name = name
        self._description = description
        """The query as text; savepoints carry it."""
        self._enumerators = enumerators
        self._committers = committers
        self._accept_duplicates = accept_duplicates
        self._on_committed = on_committed
        self._work = pickle.dumps(SlotWork(graph, config, location))
        self._state: State = New()
        self._inbox: deque[Posted] = deque()
        self._bell = Bell()
        self._requests: dict[str, Future[fx.RequestDone]] = {}
        self._report_numbers = itertools.count(1)
        self._gang: Gang | None = None
        self._ran = False
        self._discovery: Discovery | None = None
        self._lanes = {lane: Lane(f"tidegate-{lane}-{name}") for lane in ("storage", "sinks", "cleanup", "export")}
        self._outcome: fx.Outcome | None = None
        self.status = JobStatus()
        self.history = HistoryKeeper(store, name)
        self._watchdog = Watchdog(plan, name, monotonic_ms())
        self.ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"tidegate-master-{name}", daemon=True)

    # --- from any thread ---------------------------------------------------------------------------------------------

    def start(self, newest_claim: Attempt) -> None:
        """``newest_claim``: the highest attempt number seen in the location; 0: none."""
        self.post(Started(monotonic_ms(), secrets.token_hex(16), newest_claim, self._accept_duplicates))
        self._thread.start()

    def post(self, event: Posted) -> None:
        self._inbox.append(event)
        self._bell.ring()

    def stop(self) -> None:
        """Asks the query to end. ``ended`` is set when nothing of it runs any more."""
        self.post(StopRequested(monotonic_ms()))

    def checkpoint(self) -> Future[fx.RequestDone]:
        """A checkpoint as soon as possible; resolved when its output is visible."""
        return self._request(lambda token: CheckpointRequested(monotonic_ms(), token))

    def savepoint(self, target: str, afterwards: Afterwards) -> Future[fx.RequestDone]:
        """A savepoint at ``target`` as soon as possible; resolved when it stands there, whole."""
        return self._request(lambda token: SavepointRequested(monotonic_ms(), token, target, afterwards))

    def _request(self, ask: Callable[[str], Event]) -> Future[fx.RequestDone]:
        answer: Future[fx.RequestDone] = Future()
        token = secrets.token_hex(8)
        self._requests[token] = answer
        self.post(ask(token))
        if self.ended.is_set():
            self._answer_all()
        return answer

    def health(self) -> Health:
        """Whether the pipeline does what it should right now."""
        return self._watchdog.health(monotonic_ms())

    @property
    def discovery(self) -> Discovery | None:
        """Of the newest attempt that was deployed."""
        return self._discovery

    def ask_reports(self, *, poll: bool) -> int:
        """Every slot reports at once; the reports carry the number returned, or a later one.

        ``poll``: no source counts as idle until it has been polled once more.
        """
        number = next(self._report_numbers)
        self.post(ReportsWanted(number, poll))
        return number

    # --- the loop ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._outcome is None:
                self._wait()
                if self._gang is not None:
                    self._gang.receive()
                while self._inbox and self._outcome is None:
                    self._take(self._inbox.popleft())
                now_ms = monotonic_ms()
                if self._gang is not None:
                    self._gang.on_clock(now_ms)
                self._feed(ClockTicked(now_ms))
                self._watch(now_ms)
        except Exception as bug:  # the loop is the last one who can tell: whatever it is ends the query and is reported
            log.exception("the job master of %s failed", self._name)
            failed = bug if isinstance(bug, TidegateError) else None
            self._outcome = (
                fx.Failed(storing.failure_of(failed))
                if failed
                else fx.Failed(
                    Failure(Bug.code, f"the job master failed: {type(bug).__name__}: {bug}", retryable=False)
                )
            )
            if self._gang is not None:
                self._gang.end(False, "the job master failed")
        finally:
            self._finish()

    def _wait(self) -> None:
        poller = zmq.Poller()
        poller.register(self._bell.fileno(), zmq.POLLIN)
        if self._gang is not None and self._gang.open:
            poller.register(self._gang.socket, zmq.POLLIN)
        poller.poll(0 if self._inbox else TICK_MS)
        self._bell.hush()

    def _take(self, posted: Posted) -> None:
        match posted:
            case LaneFailed(failure):
                raise failure
            case ReportsWanted(number, poll):
                self._ask_slots(number, poll)
            case JobEnded(attempt) | SlotSilent(attempt):
                if self._gang is not None and self._gang.attempt == attempt:
                    self._gang.on_event(posted)
            case _:
                self._feed(posted)

    def _ask_slots(self, number: int, poll: bool) -> None:
        state = self._state
        unassigned = not isinstance(state, Active) or any(source.unassigned for source in state.run.sources)
        self.status.update(asked=number, unassigned=unassigned)
        if isinstance(state, Active) and self._gang is not None:
            # Behind every assignment: a slot that answers has taken those in.
            self._gang.send(ReportProgress(attempt=self._gang.attempt, number=number, poll=poll), None)

    def _feed(self, event: Event) -> None:
        if self._outcome is not None:
            return
        self._note(event)
        self._watchdog.on_event(event)
        self._state, effects = step(self._plan, self._state, event)
        if effects and log.isEnabledFor(logging.DEBUG):
            log.debug("step %s → %s", type(event).__name__, effects)
        self._watchdog.on_step(self._state, effects, event.now_ms)
        for effect in effects:
            self._perform(effect)

    def _watch(self, now_ms: int) -> None:
        self.history.on_clock(now_ms)
        seen = self._watchdog.on_clock(now_ms, self._state, len(self._gang.pids) if self._gang is not None else 0)
        if seen is not None:
            self._feed(seen)

    def _note(self, event: Event) -> None:
        """Log and status: every phase of a restart with its time after the failure was detected."""
        match event:
            case AttemptFailed(now_ms, attempt, failure):
                log.warning("attempt %s failed: [%s] %s", attempt, failure.code, failure.message.splitlines()[0])
                self.status.on_failure(attempt, failure.message, now_ms)
            case SlotsFree(now_ms):
                self.status.on_recovery_phase("ended", now_ms)
            case ClaimWritten(now_ms, attempt):
                self.status.update(attempt=attempt)
                self.status.on_recovery_phase("claimed", now_ms)
            case SlotsReady(now_ms):
                self._ran = True
                self.status.on_recovery_phase("restored", now_ms)
                self.status.update(phase="running", pids=self._gang.pids if self._gang else {})
            case _:
                pass

    def _perform(self, effect: fx.Effect) -> None:
        match effect:
            case fx.WriteClaim() | fx.ListLocation() | fx.WriteRestored() | fx.LookForClaim() | fx.StoreManifest():
                for note in effect.notes if isinstance(effect, fx.WriteRestored) else ():
                    log.warning("%s", note)
                self._do("storage", lambda: storing.perform(self._plan, effect, self._store, monotonic_ms))
            case fx.MarkCommitted() | fx.Delete():
                self._do("cleanup", lambda: storing.perform(self._plan, effect, self._store, monotonic_ms))
            case fx.ExportSavepoint():
                self._do("export", lambda: self._export(effect))
            case fx.CommitSinks():
                self._do("sinks", lambda: self._commit(effect))
            case fx.SweepSinks():
                self._do("sinks", lambda: self._sweep(effect))
            case fx.Deploy():
                self._deploy(effect)
            case fx.SendToSlots(message, slots):
                if self._gang is not None and self._gang.attempt == message.attempt:
                    self._gang.send(message, slots)
            case fx.EndAttempt(attempt, clean, reason):
                self._end_attempt(attempt, clean, reason)
            case fx.AnswerRequest(token, outcome):
                self._answer(token, outcome)
            case fx.ReportCheckpoint(report):
                log.info("%s", report)
                self.history.on_report(self.status.on_checkpoint(report))
                if report.outcome is CheckpointOutcome.COMPLETED:
                    recovery = self.status.on_recovery_phase("first checkpoint", report.ended_ms)
                    if recovery is not None:
                        log.info("recovered, %s", recovery)
                elif report.outcome is CheckpointOutcome.COMMITTED and self._on_committed is not None:
                    self._on_committed(report.checkpoint)
            case fx.ForgetSplits(_, operator, below):
                if self._discovery is not None:
                    self._discovery.forget(operator, below)
            case fx.Finish(outcome):
                self._outcome = outcome

    def _do(self, lane: str, work: Callable[[], Event]) -> None:
        """Runs ``work`` in its lane and posts what came of it."""

        def done() -> None:
            try:
                self.post(work())
            except Exception as failure:  # noqa: BLE001  it must end the query, not the thread
                self.post(LaneFailed(failure))

        self._lanes[lane].do(done)

    # --- attempts ----------------------------------------------------------------------------------------------------

    def _deploy(self, deploy: fx.Deploy) -> None:
        manifest = deploy.manifest
        self.status.on_recovery_phase("deployed", monotonic_ms())
        log.info(
            "attempt %s: deploying %s slots, %s",
            deploy.attempt,
            self._graph.parallelism,
            "from nothing" if manifest is None else f"from checkpoint {manifest.ref}",
        )
        self._gang = Gang(
            self._session,
            self._config,
            deploy.attempt,
            self._graph.parallelism,
            self._work,
            manifest.operators if manifest else (),
            manifest.checkpoint if manifest else None,
            name=self._name,
            ran_before=self._ran,
            post=self.post,
            tell=self.post,
            on_progress=self._on_progress,
            on_alive=lambda alive: self._watchdog.on_alive(alive, monotonic_ms()),
        )
        self._discovery = Discovery(
            deploy.attempt, self._enumerators, manifest, self._config.discovery_interval_ms, self.post
        )

    def _on_progress(self, progress: SlotProgress) -> None:
        self.status.on_progress(progress)
        self._watchdog.on_progress(progress, monotonic_ms())

    def _end_attempt(self, attempt: Attempt, clean: bool, reason: str) -> None:
        if isinstance(self._state, Ending) and isinstance(self._state.then, RestartAt):
            # Also when the coordinator itself gave the attempt up: then no event said so.
            self.status.on_failure(attempt, reason, monotonic_ms())
        if self._discovery is not None:
            self._discovery.stop()
        if self._gang is not None and self._gang.attempt == attempt:
            self._gang.end(clean, reason)
        else:
            self.post(SlotsFree(monotonic_ms(), attempt))

    # --- savepoints, in their lane -------------------------------------------------------------------------------------

    def _export(self, effect: fx.ExportSavepoint) -> Event:
        version = running_versions()["tidegate"]
        return perform_export(
            effect, self._store, open_store, monotonic_ms, query=self._description, created_by=version
        )

    # --- sinks, in their lane ------------------------------------------------------------------------------------------

    def _commit(self, commit: fx.CommitSinks) -> Event:
        try:
            for sink, committables in commit.committables:
                self._committers[sink].commit(committables)
        except TidegateError as failure:
            return SinksFailed(monotonic_ms(), commit.attempt, commit.checkpoint, storing.failure_of(failure))
        except Exception as failure:  # noqa: BLE001  a sink may raise anything; the coordinator tries again and then gives up
            text = f"a sink cannot commit: {type(failure).__name__}: {failure}"
            return SinksFailed(monotonic_ms(), commit.attempt, commit.checkpoint, Failure("UNAVAILABLE", text))
        return SinksCommitted(monotonic_ms(), commit.attempt, commit.checkpoint)

    def _sweep(self, sweep: fx.SweepSinks) -> Event:
        problems: list[str] = []
        keep = dict(sweep.keep)
        for sink, committer in sorted(self._committers.items()):
            try:
                committer.sweep(sweep.older_than, keep.get(sink, ()))
            except Exception as failure:  # noqa: BLE001  what cannot be swept now is swept in the next round
                problems.append(f"{sink}: {type(failure).__name__}: {failure}")
        return SinksSwept(monotonic_ms(), sweep.attempt, tuple(problems))

    # --- the end -----------------------------------------------------------------------------------------------------

    def _answer(self, token: str, outcome: fx.RequestDone | fx.RequestFailed) -> None:
        request = self._requests.pop(token, None)
        if request is not None:
            match outcome:
                case fx.RequestDone():
                    request.set_result(outcome)
                case fx.RequestFailed(failure):
                    request.set_exception(storing.error_from(failure))

    def _answer_all(self) -> None:
        for token in tuple(self._requests):
            request = self._requests.pop(token, None)
            if request is not None:
                request.set_exception(Unavailable("the query ended before it was taken", hint="see query.exception()"))

    def _finish(self) -> None:
        if self._discovery is not None:
            self._discovery.stop()
        for lane in self._lanes.values():
            lane.stop()
        # Whoever was replaced touches nothing any more, not even what is only for people.
        self.history.close(write=not isinstance(self._outcome, fx.Fenced))
        self.status.update(phase="ended", outcome=self._outcome, slots=self.status.now().slots)
        self.ended.set()
        self._answer_all()
        self._bell.close()
