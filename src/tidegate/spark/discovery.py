"""Looks for new input on the driver, in a thread of its own, and posts what it finds to the coordinator."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from tidegate.checkpoint.events import AttemptFailed, Event, Failure, SplitsDiscovered
from tidegate.checkpoint.manifest import Manifest, SourceState
from tidegate.checkpoint.sources import contains
from tidegate.model.errors import TidegateError
from tidegate.model.ids import Attempt, OperatorId
from tidegate.model.snapshot import Split
from tidegate.operators.ports import ContinuingEnumerator, ForgetfulEnumerator, SplitEnumerator
from tidegate.spark.clock import monotonic_ms


class Discovery:
    """Serves all sources of one attempt. The first event of each source holds everything its restored enumerator knows."""

    def __init__(
        self,
        attempt: Attempt,
        enumerators: Callable[[], Mapping[OperatorId, SplitEnumerator]],
        manifest: Manifest | None,
        interval_ms: int,
        post: Callable[[Event], None],
    ) -> None:
        self._attempt = attempt
        self._make = enumerators
        self._states = {state.operator: state for state in manifest.sources} if manifest else {}
        self._interval_ms = interval_ms
        self._post = post
        self._forgettable: dict[OperatorId, int] = {}
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._asked: list[threading.Event] = []
        self._over = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"tidegate-discovery-{attempt}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No further event of this attempt is posted once the round under way is over. Does not wait for it."""
        self._stopping.set()
        self._wake.set()

    def look(self) -> threading.Event:
        """Look for input now. The event is set when a round that began after this call is over and its findings are posted;
        never, if discovery fails or is stopped before."""
        done = threading.Event()
        with self._lock:
            if self._over:
                done.set()
            else:
                self._asked.append(done)
        self._wake.set()
        return done

    def forget(self, operator: OperatorId, below: int) -> None:
        """Splits under ``below`` are done for good: the source's next report does without them. From any thread."""
        self._forgettable[operator] = below

    def _run(self) -> None:
        try:
            enumerators = self._make()
            asked = self._take_asked()
            for operator, enumerator in sorted(enumerators.items()):
                known = self._restore(enumerator, self._states.get(operator))
                self._report(operator, enumerator, (*known, *enumerator.discover(_wall_ms())))
            waiting = {operator: one for operator, one in sorted(enumerators.items()) if not one.bounded}
            while True:
                for done in asked:
                    done.set()
                if not waiting:
                    break
                self._wake.wait(self._interval_ms / 1000)
                self._wake.clear()
                if self._stopping.is_set():
                    return
                asked = self._take_asked()
                for operator, enumerator in tuple(waiting.items()):
                    if not self._look_into(operator, enumerator):
                        del waiting[operator]
            with self._lock:
                self._over = True
            for done in self._take_asked():
                done.set()
        except TidegateError as failure:
            self._fail(
                Failure(failure.code, failure.message, hint=failure.hint, retryable=failure.code == "UNAVAILABLE")
            )
        except Exception as failure:  # noqa: BLE001  a connector may raise anything, and the attempt must hear of it
            self._fail(Failure("UNAVAILABLE", f"a source cannot look for input: {type(failure).__name__}: {failure}"))

    def _take_asked(self) -> list[threading.Event]:
        with self._lock:
            asked, self._asked = self._asked, []
        return asked

    def _look_into(self, operator: OperatorId, enumerator: SplitEnumerator) -> bool:
        """Whether there may be more later."""
        below = self._forgettable.pop(operator, None)
        if below is not None and isinstance(enumerator, ForgetfulEnumerator):
            enumerator.forget(below)
        found = enumerator.discover(_wall_ms())
        if found or enumerator.bounded:
            self._report(operator, enumerator, found)
        return not enumerator.bounded

    def _restore(self, enumerator: SplitEnumerator, state: SourceState | None) -> tuple[Split, ...]:
        if state is None:
            return ()
        if isinstance(enumerator, ContinuingEnumerator):
            enumerator.learn_done(lambda number: contains(state.done, number))
        return enumerator.restore(state.enumerator, tuple(position.split for position in state.open))

    def _report(self, operator: OperatorId, enumerator: SplitEnumerator, splits: tuple[Split, ...]) -> None:
        if not self._stopping.is_set():
            self._post(
                SplitsDiscovered(
                    monotonic_ms(),
                    self._attempt,
                    operator,
                    splits,
                    enumerator.snapshot(),
                    bounded=enumerator.bounded,
                    endless=getattr(enumerator, "endless", False),
                )
            )

    def _fail(self, failure: Failure) -> None:
        if not self._stopping.is_set():
            self._post(AttemptFailed(monotonic_ms(), self._attempt, failure))


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
