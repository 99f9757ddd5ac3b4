"""Looks for new input on the driver, in a thread of its own, and posts what it finds to the coordinator."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from tidegate.checkpoint.events import AttemptFailed, Event, Failure, SplitsDiscovered
from tidegate.checkpoint.manifest import Manifest, SourceState
from tidegate.model.errors import TidegateError
from tidegate.model.ids import Attempt, OperatorId
from tidegate.model.snapshot import Split
from tidegate.operators.ports import SplitEnumerator
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
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"tidegate-discovery-{attempt}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No further event of this attempt is posted once the round under way is over. Does not wait for it."""
        self._stopping.set()

    def _run(self) -> None:
        try:
            enumerators = self._make()
            for operator, enumerator in sorted(enumerators.items()):
                known = self._restore(enumerator, self._states.get(operator))
                self._report(operator, enumerator, (*known, *enumerator.discover(_wall_ms())))
            waiting = {operator: one for operator, one in sorted(enumerators.items()) if not one.bounded}
            while waiting and not self._stopping.wait(self._interval_ms / 1000):
                for operator, enumerator in tuple(waiting.items()):
                    found = enumerator.discover(_wall_ms())
                    if found or enumerator.bounded:
                        self._report(operator, enumerator, found)
                    if enumerator.bounded:
                        del waiting[operator]
        except TidegateError as failure:
            self._fail(
                Failure(failure.code, failure.message, hint=failure.hint, retryable=failure.code == "UNAVAILABLE")
            )
        except Exception as failure:  # noqa: BLE001  a connector may raise anything, and the attempt must hear of it
            self._fail(Failure("UNAVAILABLE", f"a source cannot look for input: {type(failure).__name__}: {failure}"))

    def _restore(self, enumerator: SplitEnumerator, state: SourceState | None) -> tuple[Split, ...]:
        if state is None:
            return ()
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
