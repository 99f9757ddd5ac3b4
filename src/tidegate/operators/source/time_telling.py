"""What a reader tells those behind it about event time: which of its logs hold it, how far the driver lets it go, that nothing is coming."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from tidegate.model.config import QueryConfig
from tidegate.model.elements import WATERMARK_MIN_US, Active, Idle, SourceStatus, Watermark
from tidegate.operators.source.supply import News, Supply


class TimeTelling:
    """Says each thing once, when it changes."""

    def __init__(self, config: QueryConfig) -> None:
        self._config = config
        self._makes_watermark = self._meets_others = self._is_far = False
        self._status: SourceStatus | None = None
        self._idle: Idle | None = None
        """As it was last said."""
        self._resting_since_ms: float | None = None
        """Since when nothing has been coming, if nothing is."""
        self._granted_us = self._put_us = WATERMARK_MIN_US
        """What the driver has granted, and how much of it this reader has put into its channels itself."""
        self._reached: tuple[tuple[int, int], ...] = ()
        """Largest event times of splits read in part before, still to be said to the chain."""

    def take_place(self, *, makes_watermark: bool, meets_others: bool, is_far: bool) -> None:
        """``makes_watermark``: the chain behind it does. ``meets_others``: the driver tells readers that rest what time it is. ``is_far``:
        somebody makes a watermark who does not know the splits any more, whenever everything rests."""
        self._makes_watermark, self._meets_others, self._is_far = makes_watermark, meets_others, is_far

    # --- what happens -------------------------------------------------------------------------------------------------

    def reached(self, split: int, largest_us: int) -> None:
        """The split was read in part before."""
        self._reached = (*self._reached, (split, largest_us))

    def granted(self, granted_us: int) -> None:
        """The driver allows event time to go that far."""
        self._granted_us = granted_us

    def brought_rows(self) -> None:
        """Rows end idleness by themselves: nobody has to be told."""
        self._idle = self._idle if self._idle is not None and self._idle.for_good else None

    def wakes(self, *, rests: bool) -> bool:
        """Whether those behind think that nothing is coming, and something is. Asked once: it counts as said then."""
        wakes = self._idle is not None and not self._idle.for_good and not rests
        if wakes:
            self._idle = None
        return wakes

    # --- what is to be said -------------------------------------------------------------------------------------------

    def status(self, supply: Supply, active: AbstractSet[int]) -> tuple[SourceStatus | Watermark, ...]:
        """``active``: logs that are not idle. Those that are hold no watermark back."""
        return (*self._changed_status(supply, active), *self._grant())

    def idleness(self, supply: Supply, now_ms: float, *, rests: bool, again: bool) -> tuple[Idle | Active, ...]:
        """After a poll without rows. ``again``: the watermark of a status has ended the idleness, for those behind."""
        before, idle = self._idle, self._idle_now(supply, now_ms, rests)
        if idle is None:
            # A source that has fallen silent has said nothing about what it has: it is awaited again.
            self._idle = None
            return () if before is None else (Active(),)
        if idle == before and not (again and not idle.for_good):
            return ()
        self._idle = idle
        return (idle,)

    @property
    def lets_go_at_ms(self) -> float:
        """When a reader that rests lets those go that wait for it, unless something comes; never: infinity."""
        timeout_ms = self._config.idle_stream_timeout_ms
        if not timeout_ms or self._resting_since_ms is None or (self._idle is not None and self._idle.let_go):
            return float("inf")
        return self._resting_since_ms + timeout_ms

    def _changed_status(self, supply: Supply, active: AbstractSet[int]) -> tuple[SourceStatus, ...]:
        news, reached = supply.news, self._reached
        self._reached = ()
        if not supply.answered:
            status = SourceStatus(frozenset(), holding=True)
        elif news.ordered:
            # Nothing is idle in a bounded run.
            holding = self._config.bounded and news.unassigned
            status = SourceStatus(frozenset(active), holding, self._granted_us, reached=reached)
        else:
            status = SourceStatus(frozenset(), holding=False, granted_us=self._granted_us, whole=True, reached=reached)
        if status == self._status:
            return ()
        self._status = status
        return (status,)

    def _grant(self) -> tuple[Watermark, ...]:
        """Where nobody in the chain makes watermarks, nor behind it, this reader says how far the others were."""
        if self._makes_watermark or self._is_far or self._granted_us <= self._put_us:
            return ()
        self._put_us = self._granted_us
        return (Watermark(self._put_us),)

    def _idle_now(self, supply: Supply, now_ms: float, rests: bool) -> Idle | None:
        """What there is to say about nothing. Where the driver tells a reader at rest what time it is, its channel stands there and holds:
        called idle, it would be passed over while the rows that end its rest are still on their way."""
        if self._is_timeless(supply):
            return Idle(for_good=True)
        if not rests:
            self._resting_since_ms = None
            return None
        if self._resting_since_ms is None:
            self._resting_since_ms = now_ms
        timeout_ms = self._config.idle_stream_timeout_ms
        if timeout_ms and now_ms - self._resting_since_ms >= timeout_ms:
            return Idle(let_go=True)
        return self._idle_with(supply.news)

    def _idle_with(self, news: News) -> Idle | None:
        if not news.ordered:
            return Idle(rest=news.rest) if self._is_far and news.rest else None
        return None if self._meets_others else Idle()

    def _is_timeless(self, supply: Supply) -> bool:
        """Nobody asks for the time of these rows, and there is no cohort after which others might have to wait for them."""
        return supply.answered and supply.news.ordered and not self._makes_watermark and not self._config.bounded
