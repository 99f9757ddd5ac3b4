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
    CheckpointRequested,
    ClockTicked,
    Event,
    Failure,
    RedeployRequested,
    SavepointRequested,
    SlotsFree,
    SlotsReady,
    Started,
    StopRequested,
)
from tidegate.checkpoint.holding import at_rest
from tidegate.checkpoint.lifecycle import step
from tidegate.checkpoint.phases import Active, Ending, New, RestartAt, State
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.statistics import Outcome as CheckpointOutcome
from tidegate.model.config import QueryConfig
from tidegate.model.errors import Bug, TidegateError
from tidegate.model.ids import Attempt, CheckpointId, OperatorId
from tidegate.model.messages import ReportProgress, SlotProgress
from tidegate.plan.graph import JobGraph
from tidegate.ports.sink import SinkCommitter
from tidegate.ports.source import SplitEnumerator
from tidegate.ports.store import BlobStore
from tidegate.spark.clock import monotonic_ms
from tidegate.spark.discovery import Discovery
from tidegate.spark.gang import Gang, GangEvent, JobEnded, SlotSilent
from tidegate.spark.health import Health
from tidegate.spark.history import HistoryKeeper
from tidegate.spark.holding import Hold, HoldWatch
from tidegate.spark.journal import Journal
from tidegate.spark.outside import LaneFailed, Outside
from tidegate.spark.requests import Requests
from tidegate.spark.status import JobStatus
from tidegate.spark.task import SlotWork
from tidegate.spark.watchdog import Watchdog
from tidegate.storage.options import NO_OPTIONS, StorageOptions
from tidegate.transport.bell import Bell

log = logging.getLogger("tidegate.driver")

TICK_MS = 50


@dataclass(frozen=True, slots=True)
class ReportsWanted:
    """Somebody wants to hear from all slots now."""

    number: int
    poll: bool


@dataclass(frozen=True, slots=True)
class Replacement:
    """From the next attempt on the slots run ``graph``: the same query over static data that was read again."""

    graph: JobGraph


Posted: TypeAlias = Event | GangEvent | LaneFailed | ReportsWanted | Replacement


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
        storage: StorageOptions = NO_OPTIONS,
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
        self._name = name
        self._enumerators = enumerators
        self._accept_duplicates = accept_duplicates
        self._on_committed = on_committed
        self._store = store
        self._location = location
        self._storage = storage
        self._work = self._pickled(graph)
        self._state: State = New()
        self._inbox: deque[Posted] = deque()
        self._bell = Bell()
        self._requests = Requests()
        self._report_numbers = itertools.count(1)
        self._gang: Gang | None = None
        self._ran = False
        self._discovery: Discovery | None = None
        self._outside = Outside(plan, store, committers, self.post, storage=storage, name=name, description=description)
        self._outcome: fx.Outcome | None = None
        self.status = JobStatus()
        self.history = HistoryKeeper(store, name)
        self._journal = Journal(self.status, self.history)
        self._watchdog = Watchdog(plan, name, monotonic_ms())
        self._hold_watch = HoldWatch(graph, plan)
        self.holds: tuple[Hold, ...] = ()
        """Who holds event time back, most holding first. To be read by any thread."""
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

    def redeploy(self, graph: JobGraph) -> None:
        """Starts the slots anew, with ``graph``, from the last complete checkpoint. Its operators and their state are the same."""
        self.post(Replacement(graph))

    def checkpoint(self) -> Future[fx.RequestDone]:
        """A checkpoint as soon as possible; resolved when its output is visible."""
        return self._request(lambda token: CheckpointRequested(monotonic_ms(), token))

    def savepoint(self, target: str, afterwards: Afterwards) -> Future[fx.RequestDone]:
        """A savepoint at ``target`` as soon as possible; resolved when it stands there, whole."""
        return self._request(lambda token: SavepointRequested(monotonic_ms(), token, target, afterwards))

    def _request(self, ask: Callable[[str], Event]) -> Future[fx.RequestDone]:
        token, answer = self._requests.open()
        self.post(ask(token))
        if self.ended.is_set():
            self._requests.give_up()
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
            case Replacement(graph):
                self._graph, self._work = graph, self._pickled(graph)
                self._feed(RedeployRequested(monotonic_ms()))
            case JobEnded(attempt) | SlotSilent(attempt):
                if self._gang is not None and self._gang.attempt == attempt:
                    self._gang.on_event(posted)
            case _:
                self._feed(posted)

    def _ask_slots(self, number: int, poll: bool) -> None:
        state = self._state
        sources = state.run.sources if isinstance(state, Active) else None
        unassigned = sources is None or any(source.unassigned for source in sources)
        resting = sources is not None and at_rest(self._plan, sources)
        self.status.update(asked=number, unassigned=unassigned, resting=resting)
        if isinstance(state, Active) and self._gang is not None:
            # Behind every assignment: a slot that answers has taken those in.
            self._gang.send(ReportProgress(attempt=self._gang.attempt, number=number, poll=poll), None)

    def _feed(self, event: Event) -> None:
        if self._outcome is not None:
            return
        if isinstance(event, SlotsReady):
            self._ran = True
        self._journal.on_event(event, self._gang.pids if self._gang is not None else {})
        self._watchdog.on_event(event)
        self._state, effects = step(self._plan, self._state, event)
        if effects and log.isEnabledFor(logging.DEBUG):
            log.debug("step %s → %s", type(event).__name__, effects)
        self._watchdog.on_step(self._state, effects, event.now_ms)
        for effect in effects:
            self._perform(effect)

    def _watch(self, now_ms: int) -> None:
        self.history.on_clock(now_ms)
        sources = self._state.run.sources if isinstance(self._state, Active) else ()
        if self._hold_watch.due(now_ms) or not sources:
            failing = self._discovery.failing() if self._discovery is not None else {}
            self.holds = self._hold_watch.look(sources, self.status.now().slots, failing, now_ms)
        self._watchdog.on_holds(self.holds)
        seen = self._watchdog.on_clock(now_ms, self._state, len(self._gang.pids) if self._gang is not None else 0)
        if seen is not None:
            self._feed(seen)

    def _perform(self, effect: fx.Effect) -> None:
        match effect:
            case fx.Deploy():
                self._deploy(effect)
            case fx.SendToSlots(message, slots):
                if self._gang is not None and self._gang.attempt == message.attempt:
                    self._gang.send(message, slots)
            case fx.EndAttempt(attempt, clean, reason):
                self._end_attempt(attempt, clean, reason)
            case fx.AnswerRequest(token, outcome):
                self._requests.answer(token, outcome)
            case fx.ReportCheckpoint(report):
                self._journal.on_report(report)
                if report.outcome is CheckpointOutcome.COMMITTED and self._on_committed is not None:
                    self._on_committed(report.checkpoint)
            case fx.ForgetSplits(_, operator, below):
                if self._discovery is not None:
                    self._discovery.forget(operator, below)
            case fx.Finish(outcome):
                self._outcome = outcome
            case _:
                for note in effect.notes if isinstance(effect, fx.WriteRestored) else ():
                    log.warning("%s", note)
                self._outside.perform(effect)

    def _pickled(self, graph: JobGraph) -> bytes:
        return pickle.dumps(SlotWork(graph, self._config, self._plan.pipeline, self._location, self._storage))

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
            deploy.attempt,
            self._enumerators,
            manifest,
            self._config.discovery_interval_ms,
            self.post,
            self._plan.stream_of,
            self._store,
            before=self._discovery,
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

    # --- the end -----------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        if self._discovery is not None:
            self._discovery.stop()
        self._outside.stop()
        if self._discovery is not None:
            self._discovery.wait_closed()
        # Whoever was replaced touches nothing any more, not even what is only for people.
        self.history.close(write=not isinstance(self._outcome, fx.Fenced))
        self.status.update(phase="ended", outcome=self._outcome, slots=self.status.now().slots)
        self.ended.set()
        self._requests.give_up()
        self._bell.close()
