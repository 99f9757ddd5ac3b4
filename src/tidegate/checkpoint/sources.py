"""Who reads which split. The enumerator (shell) discovers, this decides, readers (slots) read and report positions.

A split is at any time exactly one of: done, open at a reader (or on its way back to one after a restore), or pending.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import msgspec

from tidegate.checkpoint.cohorts import Cohorts, restored_cohorts
from tidegate.checkpoint.events import SplitsDiscovered
from tidegate.checkpoint.intervals import Intervals, add_numbers, contains
from tidegate.checkpoint.manifest import SourceState
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.shares import Share
from tidegate.model.elements import WATERMARK_MIN_US
from tidegate.model.ids import Attempt, OperatorId, SlotIndex
from tidegate.model.messages import AssignSplits, SourceTime, SplitsWanted
from tidegate.model.snapshot import SourceProgress, Split, SplitPosition

SPLITS_PER_REQUEST_MAX = 16
TIME_PAUSE_MS = 20
"""Readers that wait for no splits are told the time at most this often; with more readers, less often."""


@dataclass(frozen=True, slots=True)
class ReaderTime:
    """Where event time stands at one reader of logs."""

    slot: SlotIndex
    watermark_us: int
    idle: bool


@dataclass(frozen=True, slots=True)
class SplitAssigner:
    """The splits of one source during one attempt."""

    operator: OperatorId
    shares: tuple[Share, ...]
    enumerator: bytes = b""
    done: Intervals = ()
    open: tuple[SplitPosition, ...] = ()
    read_us: int = WATERMARK_MIN_US
    """Largest event time of what is done. All three as of the newest completed checkpoint of the lineage."""
    returning: tuple[SplitPosition, ...] = ()
    """Open at the restore, not given to a reader yet: first in line, with their positions, once the enumerator has said
    what there is beside them."""
    known: Intervals = ()
    """Numbers of all splits discovered in this attempt; each is taken up once, however often it is reported."""
    pending: tuple[Split, ...] = ()
    given: int = 0
    """How many of ``pending`` have been given out; they are dropped in bulk."""
    discovered: bool = False
    bounded: bool = False
    endless: bool = False
    ordered: bool = False
    """The splits are logs: each tells its own time, and nothing is granted but to readers that have none."""
    cohorts: Cohorts = field(default_factory=Cohorts)
    """Of whole splits."""
    complete: bool = True
    """The last round of looks has reached all sources of its stream."""
    times: tuple[ReaderTime, ...] = ()
    """Of logs: where event time stands at each reader, as far as they have said."""
    granted_us: int = WATERMARK_MIN_US
    """What readers are told: ``checkpoint/granting.py`` makes it of all sources that belong together."""
    followed: int = 0
    """Nobody asks for the time of its rows: the start of the cohort with which it last followed the others."""
    rest: int = 0
    """How often everything has been read whose time is told behind an exchange; …"""
    rested: int = -1
    """… and what was known at the last time."""
    told_at_ms: int = 0
    """When readers that had not asked were last told what time it is."""

    @property
    def unassigned(self) -> bool:
        return not self.discovered or bool(self.returning) or self.given < len(self.pending)

    @property
    def unread(self) -> bool:
        """Whole splits are known and not read to their ends; before the first look nobody knows."""
        return not self.ordered and (not self.discovered or self.cohorts.unread)

    def on_discovered(
        self,
        splits: tuple[Split, ...],
        state: bytes,
        *,
        bounded: bool,
        endless: bool,
        ordered: bool = False,
        found: bool = True,
        complete: bool = True,
    ) -> SplitAssigner:
        open_now = {position.split.number for position in self.open}
        new = tuple(
            split
            for split in splits
            if split.number not in open_now
            and not contains(self.known, split.number)
            and not contains(self.done, split.number)
        )
        # The enumerator's word on a split is newer than the reader's: it may have been given an end since.
        restated = {split.number: split for split in splits if split.number in open_now}
        # Those before one that was open at the restore were being read as well, or about to be. They go with it: behind
        # it, rows that no run without a failure would call late could come after the watermark.
        last_open = max((position.split.number for position in self.returning), default=-1)
        beside = tuple(SplitPosition(split=split, position=None) for split in new if split.number < last_open)
        new = tuple(split for split in new if split.number > last_open)
        known = add_numbers(self.known, (split.number for split in splits))
        fresh = tuple(
            split
            for split in splits
            if not contains(self.known, split.number) and not contains(self.done, split.number)
        )
        cohorts = self.cohorts
        if not ordered:
            cohorts = cohorts.looked(fresh, found=found, last=bounded)
            cohorts = cohorts if self.discovered else cohorts.absent(known)
        return replace(
            self,
            enumerator=state,
            open=_restated(self.open, restated),
            returning=(*_restated(self.returning, restated), *beside),
            known=known,
            pending=(*self.pending[self.given :], *new) if new else self.pending,
            given=0 if new else self.given,
            discovered=True,
            bounded=self.bounded or bounded,
            endless=self.endless or endless,
            ordered=self.ordered or ordered,
            cohorts=cohorts,
            complete=complete,
        )

    def on_looked(self, event: SplitsDiscovered) -> SplitAssigner:
        """``on_discovered`` with what the event says."""
        return self.on_discovered(
            event.splits,
            event.state,
            bounded=event.bounded,
            endless=event.endless,
            ordered=event.ordered,
            found=event.found,
            complete=event.complete,
        )

    def on_wanted(self, message: SplitsWanted) -> SplitAssigner:
        share = self.shares[message.slot].on_wanted(message)
        cohorts = self.cohorts if self.ordered else self.cohorts.finished(message.finished)
        return replace(self._with(message.slot, share), cohorts=cohorts)

    def on_time(self, message: SourceTime) -> SplitAssigner:
        """A reader of logs says where event time stands."""
        others = tuple(one for one in self.times if one.slot != message.slot)
        return replace(self, times=(*others, ReaderTime(message.slot, message.watermark_us, message.idle)))

    def unconfirmed(self, slot: SlotIndex | None = None) -> tuple[AssignSplits, ...]:
        """What that reader, or any, has been sent and may have missed; in order."""
        shares = self.shares if slot is None else (self.shares[slot],)
        return tuple(message for share in shares for message in share.unconfirmed)

    def assign(
        self, attempt: Attempt, asked: SlotIndex | None = None, now_ms: int | None = None
    ) -> tuple[SplitAssigner, tuple[AssignSplits, ...]]:
        """Give out what can be given out now. Called after every change; sorted by slot.

        ``asked``: nothing has changed but that this reader asked: whoever else wants something has waited in vain already.
        ``now_ms``: readers that wait for no splits are told the time now and then; without it, always.
        """
        assigner, deals = self._deal(asked)
        no_more = assigner.bounded and not assigner.unassigned
        tells_time = now_ms is None or now_ms >= self.told_at_ms + self._pause_ms
        messages: list[AssignSplits] = []
        concerned = range(len(self.shares)) if asked is None or no_more else sorted({*deals, int(asked)})
        for slot in concerned:
            share = assigner.shares[slot]
            splits = tuple(deals.get(slot, ()))
            answers = bool(splits) or (share.unanswered and assigner.discovered) or (no_more and not share.told_no_more)
            if not answers and not (tells_time and assigner._is_news(share)):
                continue
            message = AssignSplits(
                attempt=attempt,
                operator=self.operator,
                subtask=SlotIndex(slot),
                sequence=share.sequence,
                splits=splits,
                unassigned=assigner.unassigned,
                no_more=no_more,
                heard=share.heard,
                answers=answers,
                ordered=assigner.ordered,
                unread=assigner.unread,
                rest=assigner.rest,
                watermark_us=assigner.granted_us,
            )
            messages.append(message)
            assigner = assigner._with(SlotIndex(slot), share.sent(message))
        if now_ms is not None and any(not message.answers for message in messages):
            assigner = replace(assigner, told_at_ms=now_ms)
        return assigner, tuple(messages)

    def tells_time(self, now_ms: int) -> bool:
        """Some reader does not know what time it is, and it is time to say so."""
        return now_ms >= self.told_at_ms + self._pause_ms and any(self._is_news(share) for share in self.shares)

    @property
    def _pause_ms(self) -> int:
        return max(TIME_PAUSE_MS, len(self.shares))

    def _is_news(self, share: Share) -> bool:
        told = share.told_rest == self.rest and share.told_unread == self.unread
        return self.discovered and (share.told_us < self.granted_us or not told)

    def _deal(self, asked: SlotIndex | None) -> tuple[SplitAssigner, dict[int, list[SplitPosition]]]:
        deals: dict[int, list[SplitPosition]] = {}
        assigner = self
        if assigner.discovered:
            for number, position in enumerate(assigner.returning):
                deals.setdefault(number % len(self.shares), []).append(position)
            assigner = replace(assigner, returning=())
        if assigner.endless:
            for split in assigner.pending[assigner.given :]:
                slot = split.number % len(self.shares)
                deals.setdefault(slot, []).append(SplitPosition(split=split, position=None))
            assigner = replace(assigner, given=len(assigner.pending))
        for slot in range(len(self.shares)) if asked is None else (asked,):
            if assigner.shares[slot].wants and (left := assigner._assignable):
                # Many small splits go in handfuls, the last ones singly, so that readers end together.
                count = min(max(left // (2 * len(self.shares)), 1), SPLITS_PER_REQUEST_MAX)
                taken = assigner.pending[assigner.given : assigner.given + count]
                deals.setdefault(slot, []).extend(SplitPosition(split=split, position=None) for split in taken)
                assigner = replace(assigner, given=assigner.given + count)
        return assigner, deals

    @property
    def _assignable(self) -> int:
        """How many of ``pending`` may be given out now: of whole splits, those of two cohorts."""
        if self.ordered or not self.cohorts.cuts:
            return len(self.pending) - self.given
        bound = self.cohorts.assignable
        return bisect_left(self.pending, bound, lo=self.given, key=lambda split: split.number) - self.given

    def fold(self, progress: Iterable[SourceProgress]) -> SourceState:
        """The source at a checkpoint, from what every reader reported at its barrier.

        Called when all have acknowledged, with the enumerator's newest snapshot: it knows every split a reader can
        mention. A split that was open before and that no reader mentions is on its way to one: its position stays.
        """
        progress = tuple(progress)
        finished = [split for one in progress for split in one.finished]
        done = add_numbers(self.done, (split.number for split in finished))
        positions = {position.split.number: position for position in self.open}
        positions.update((position.split.number, position) for one in progress for position in one.open)
        return SourceState(
            operator=self.operator,
            enumerator=self.enumerator,
            done=done,
            open=tuple(positions[number] for number in sorted(positions) if not contains(done, number)),
            # Of the cut, never of the live cohorts: they may have settled splits that are open at the cut.
            read_us=max([self.read_us, *(split.largest_us for split in finished)]),
        )

    def on_completed(self, state: SourceState) -> SplitAssigner:
        """The checkpoint with this state is complete: positions are reported relative to it from now on."""
        return replace(self, done=state.done, open=state.open, read_us=state.read_us)

    def _with(self, slot: SlotIndex, share: Share) -> SplitAssigner:
        return replace(self, shares=(*self.shares[:slot], share, *self.shares[slot + 1 :]))


def _restated(positions: tuple[SplitPosition, ...], splits: dict[int, Split]) -> tuple[SplitPosition, ...]:
    if not splits:
        return positions
    return tuple(msgspec.structs.replace(one, split=splits.get(one.split.number, one.split)) for one in positions)


def fresh(operator: OperatorId, parallelism: int, delay_us: int | None = None, *, lags: bool = False) -> SplitAssigner:
    """``delay_us``: of the watermark that is made of its rows; None: nobody asks for their time. ``lags``: nothing waits for it."""
    return SplitAssigner(operator, (Share(),) * parallelism, cohorts=Cohorts(delay_us=delay_us, lags=lags))


def restored(state: SourceState, parallelism: int, delay_us: int | None = None, *, lags: bool = False) -> SplitAssigner:
    """As the checkpoint left it, for any number of readers."""
    cohorts = restored_cohorts(delay_us, state.done, state.read_us, lags=lags)
    return replace(
        fresh(state.operator, parallelism),
        enumerator=state.enumerator,
        done=state.done,
        open=state.open,
        read_us=state.read_us,
        returning=state.open,
        cohorts=cohorts,
        followed=cohorts.start,
    )


def at_start(plan: CheckpointPlan, operator: OperatorId, state: SourceState | None) -> SplitAssigner:
    """The source as an attempt begins with it; ``state``: of the checkpoint that is restored, if it knows the source."""
    delay_us, lags = plan.delay_us_of(operator), plan.only_judges
    if state is None:
        return fresh(operator, plan.parallelism, delay_us, lags=lags)
    return restored(state, plan.parallelism, delay_us, lags=lags)
