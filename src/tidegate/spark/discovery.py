"""Looks for new input on the driver and posts what it finds to the coordinator.

Sources of one stream are looked into in rounds. A burst may land in several of them at once: only a round in which every look
succeeded, begun after the one that found the first of it, can say that all of it is known.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tidegate.checkpoint.events import AttemptFailed, Event, Failure, SplitsDiscovered
from tidegate.checkpoint.manifest import Manifest
from tidegate.model.errors import Outdated, TidegateError, Unavailable
from tidegate.model.ids import Attempt, OperatorId
from tidegate.model.snapshot import Split
from tidegate.ports.source import SplitEnumerator
from tidegate.ports.store import BlobStore
from tidegate.spark.clock import monotonic_ms
from tidegate.spark.letting_go import LettingGo
from tidegate.spark.restored_sources import RestoredSources

log = logging.getLogger("tidegate")

BURST_MS = 250
"""What comes in one piece may take this long, or ``discoveryInterval`` if that is shorter, whoever asks for a look meanwhile."""
AGAIN_MS = 1_000
"""A look that failed is repeated after this long, even where looks are rare."""
_OVER = 1 << 62
"""Stands for every look: a source that has told everything has been looked into, whoever asks."""


class FailingLooks(NamedTuple):
    """A source that could be looked into before, and cannot now."""

    since_ms: int
    """The first look that failed, by the monotonic clock."""
    message: str
    """Of the last one: what did not answer, and where."""


@dataclass(slots=True)
class _Watched:
    """A source that has not told everything yet."""

    operator: OperatorId
    enumerator: SplitEnumerator
    known: tuple[Split, ...] | None = None
    """What the restored enumerator knows, until it is told with the first look."""
    owes: bool = True
    """The next look that finds nothing is to be told: it is the first one, or follows one with findings."""


class Discovery:
    """Serves all sources of one attempt. The first event of each source holds everything its restored enumerator knows.

    Looks into one source follow each other. A slow source keeps only those of its own stream waiting.
    """

    def __init__(
        self,
        attempt: Attempt,
        enumerators: Callable[[], Mapping[OperatorId, SplitEnumerator]],
        manifest: Manifest | None,
        interval_ms: int,
        post: Callable[[Event], None],
        stream_of: Callable[[OperatorId], OperatorId | None] = lambda _: None,
        store: BlobStore | None = None,
        before: Discovery | None = None,
    ) -> None:
        """``stream_of``: which sources belong together; one without a stream is by itself. ``store``: where it is noted where sources
        begin. ``before``: of an earlier attempt, whose sources may hold what these want: they are given time to let it go."""
        self._attempt = attempt
        self._make = enumerators
        self._restored = RestoredSources(manifest, store)
        self._interval_ms = interval_ms
        self._post = post
        self._stream_of = stream_of
        self._letting_go = LettingGo(attempt)
        self._changed = threading.Condition()
        self._stopping = False
        self._requests = 0
        """Looks asked for so far."""
        self._asked: list[tuple[int, threading.Event]] = []
        self._answered: dict[OperatorId, int] | None = None
        """By the first source of those that belong together: how many requests were there when their last round began in which every
        look succeeded. None: nobody knows the sources yet."""
        self._failing: dict[OperatorId, FailingLooks] = {}
        threading.Thread(target=self._begin, args=(before,), name=f"tidegate-discovery-{attempt}", daemon=True).start()

    def stop(self) -> None:
        """No further event of this attempt is posted once the looks under way are over. Does not wait for them."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._letting_go.stop()

    def wait_closed(self) -> None:
        """After ``stop``: until the sources have heard what is done and are closed, or have taken too long."""
        self._letting_go.wait_closed()

    def look(self) -> threading.Event:
        """Look for input now. The event is set when of every stream a round that began after this call has succeeded at every source
        and its findings are posted; never, if discovery fails or is stopped before."""
        done = threading.Event()
        with self._changed:
            self._requests += 1
            self._asked.append((self._requests, done))
            self._answer()
            self._changed.notify_all()
        return done

    def forget(self, operator: OperatorId, below: int) -> None:
        """The output of all splits under ``below`` is visible: the source's next report does without them. From any thread."""
        self._letting_go.done(operator, below)

    def failing(self) -> dict[OperatorId, FailingLooks]:
        """Sources that do not say what is there: event time waits for them. From any thread."""
        with self._changed:
            return dict(self._failing)

    def _begin(self, before: Discovery | None) -> None:
        if before is not None:
            before.wait_closed()
        try:
            enumerators = dict(sorted(self._make().items()))
            self._letting_go.opened(enumerators.items())
        except Exception as failure:  # noqa: BLE001  a connector may raise anything, and the attempt must hear of it
            self._letting_go.opened(())
            self._fail(failure)
            return
        together: dict[OperatorId, list[_Watched]] = {}
        for operator, enumerator in enumerators.items():
            together.setdefault(self._stream_of(operator) or operator, []).append(_Watched(operator, enumerator))
        with self._changed:
            self._answered = {sources[0].operator: -1 for sources in together.values()}
            self._answer()
        for sources in together.values():
            name = f"tidegate-discovery-{self._attempt}-{sources[0].operator}"
            threading.Thread(target=self._watch, args=(sources,), name=name, daemon=True).start()

    def _watch(self, sources: list[_Watched]) -> None:
        """The life of sources that belong together."""
        everyone = [(source.operator, source.enumerator) for source in sources]
        try:
            self._ask(sources)
            self._letting_go.attend(everyone)
        except Exception as failure:  # noqa: BLE001  a connector may raise anything, and the attempt must hear of it
            self._fail(failure)
        finally:
            self._letting_go.close(everyone)

    def _ask(self, sources: list[_Watched]) -> None:
        """All rounds of looks, until they have told everything."""
        first = sources[0].operator
        answers = self._pending()
        while answers is not None:
            looks = self._round(sources)
            try:
                self._report(sources, looks)
                if None not in looks:
                    sources = [source for source in sources if not source.enumerator.bounded]
                    self._answers(first, answers if sources else _OVER)
            except Exception as failure:  # noqa: BLE001  a connector may raise anything, and the attempt must hear of it
                self._fail(failure)
            answers = self._wait(answers, sources) if sources else None

    def _round(self, sources: list[_Watched]) -> list[tuple[Split, ...] | None]:
        """What is new in each of them: looked into at the same time, so that a round takes no longer than its slowest look."""
        looks: list[tuple[Split, ...] | None] = [None] * len(sources)

        def look(number: int) -> None:
            try:
                looks[number] = self._look_into(sources[number])
            except Exception as failure:  # noqa: BLE001  a connector may raise anything, and the attempt must hear of it
                self._fail(failure)

        threads = [
            threading.Thread(
                target=look, args=(number,), name=f"tidegate-discovery-{self._attempt}-{source.operator}", daemon=True
            )
            for number, source in enumerate(sources[1:], 1)
        ]
        for thread in threads:
            thread.start()
        look(0)
        for thread in threads:
            thread.join()
        return looks

    def _look_into(self, source: _Watched) -> tuple[Split, ...] | None:
        """What is new; None: nobody can say right now."""
        operator, enumerator = source.operator, source.enumerator
        if source.known is None:
            source.known = self._restored.restore(operator, enumerator, _wall_ms())
            return enumerator.discover(_wall_ms())
        self._letting_go.tell(operator, enumerator)
        if enumerator.bounded:
            return ()
        try:
            new = enumerator.discover(_wall_ms())
        except Outdated:
            raise
        except Unavailable as trouble:
            with self._changed:
                before = self._failing.get(operator)
                since_ms = monotonic_ms() if before is None else before.since_ms
                self._failing[operator] = FailingLooks(since_ms, trouble.message)
            if before is None:
                hint = f" ({trouble.hint})" if trouble.hint else ""
                log.warning("%s: %s%s; it is looked for new input again and again", operator, trouble.message, hint)
            return None
        with self._changed:
            recovered = self._failing.pop(operator, None)
        if recovered is not None:
            log.info("%s can be looked into again", operator)
        return new

    def _pending(self) -> int:
        with self._changed:
            return self._requests

    def _wait(self, answered: int, sources: list[_Watched]) -> int | None:
        """Until the next round is due or asked for: requests made before it. None: there are to be no more rounds."""
        with self._changed:
            failing = any(source.operator in self._failing for source in sources)
            pause_ms = min(self._interval_ms, AGAIN_MS) if failing else self._interval_ms
            # The look that finds nothing more says that a burst is over. One that is asked for must not say so too early.
            burst_ms = min(pause_ms, BURST_MS) if any(source.owes for source in sources) else 0
            self._changed.wait_for(lambda: self._stopping, burst_ms / 1000)
            self._changed.wait_for(
                lambda: self._stopping or self._requests > answered, max(0, pause_ms - burst_ms) / 1000
            )
            return None if self._stopping else self._requests

    def _answers(self, operator: OperatorId, requests: int) -> None:
        with self._changed:
            if self._answered is not None:
                self._answered[operator] = requests
            self._answer()

    def _answer(self) -> None:
        """Tells those whose look is over. The lock is held."""
        if self._answered is None:
            return
        everywhere = min(self._answered.values(), default=_OVER)
        for _, done in [one for one in self._asked if one[0] <= everywhere]:
            done.set()
        self._asked = [one for one in self._asked if one[0] > everywhere]

    def _report(self, sources: Sequence[_Watched], looks: Sequence[tuple[Split, ...] | None]) -> None:
        """A round is over. Findings are told first: what is known of one source holds the others when a burst is said to be over."""
        whole = None not in looks
        for source, new in sorted(zip(sources, looks, strict=True), key=lambda one: not one[1]):
            # What came in one piece is known to be complete by the first round that finds nothing more of it, and misses nobody.
            if new or (whole and (source.owes or source.enumerator.bounded)):
                self._tell(source, new or (), whole=whole)

    def _tell(self, source: _Watched, new: tuple[Split, ...], *, whole: bool) -> None:
        enumerator = source.enumerator
        event = SplitsDiscovered(
            monotonic_ms(),
            self._attempt,
            source.operator,
            (*(source.known or ()), *new),
            enumerator.snapshot(),
            bounded=whole and enumerator.bounded,
            endless=enumerator.endless,
            ordered=enumerator.ordered,
            found=bool(new),
            complete=whole,
        )
        source.known, source.owes = (), bool(new)
        if not self._stopping:
            self._post(event)

    def _fail(self, error: Exception) -> None:
        if isinstance(error, TidegateError):
            failure = Failure(error.code, error.message, hint=error.hint, retryable=error.code == "UNAVAILABLE")
        else:
            failure = Failure("UNAVAILABLE", f"a source cannot look for input: {type(error).__name__}: {error}")
        with self._changed:
            first, self._stopping = not self._stopping, True
            self._changed.notify_all()
        if first:
            self._post(AttemptFailed(monotonic_ms(), self._attempt, failure))


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
