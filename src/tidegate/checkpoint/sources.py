"""Who reads which split. The enumerator (shell) discovers, this decides, readers (slots) read and report positions.

A split is at any time exactly one of: done, open at a reader (or on its way back to one after a restore), or pending.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tidegate.checkpoint.manifest import Interval, SourceState
from tidegate.model.ids import Attempt, OperatorId, SlotIndex
from tidegate.model.messages import AssignSplits, SplitsWanted
from tidegate.model.snapshot import SourceProgress, Split, SplitPosition

SPLITS_PER_REQUEST_MAX = 16


def add_numbers(intervals: tuple[Interval, ...], numbers: Iterable[int]) -> tuple[Interval, ...]:
    """The interval set with ``numbers`` added; disjoint, sorted, non-adjacent."""
    ranges = sorted([*((one.start, one.stop) for one in intervals), *((n, n + 1) for n in set(numbers))])
    merged: list[tuple[int, int]] = []
    for start, stop in ranges:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return tuple(Interval(start, stop) for start, stop in merged)


def contains(intervals: tuple[Interval, ...], number: int) -> bool:
    at = bisect_right([one.start for one in intervals], number) - 1
    return at >= 0 and number < intervals[at].stop


def done_prefix(done: tuple[Interval, ...]) -> int:
    """The first number that is not done: everything under it is."""
    return done[0].stop if done and done[0].start == 0 else 0


@dataclass(frozen=True, slots=True)
class Share:
    """What one reader has been sent in this attempt."""

    sequence: int = 0
    """Of the next AssignSplits."""
    unconfirmed: tuple[AssignSplits, ...] = ()
    """Sent, and the reader has not said that it took them in: they may be lost, and are sent again."""
    wants: bool = False
    """Has asked and got nothing yet: first to get what is discovered."""
    unanswered: bool = False
    """Has asked and heard nothing yet: it must learn that there is nothing, or it holds its watermark back."""
    told_no_more: bool = False


@dataclass(frozen=True, slots=True)
class SplitAssigner:
    """The splits of one source during one attempt."""

    operator: OperatorId
    shares: tuple[Share, ...]
    enumerator: bytes = b""
    done: tuple[Interval, ...] = ()
    open: tuple[SplitPosition, ...] = ()
    """``done`` and ``open`` as of the newest completed checkpoint of the lineage."""
    returning: tuple[SplitPosition, ...] = ()
    """Open at the restore, not given to a reader yet: first in line, with their positions, once the enumerator has said
    what there is beside them."""
    known: tuple[Interval, ...] = ()
    """Numbers of all splits discovered in this attempt; each is taken up once, however often it is reported."""
    pending: tuple[Split, ...] = ()
    given: int = 0
    """How many of ``pending`` have been given out; they are dropped in bulk."""
    discovered: bool = False
    bounded: bool = False
    endless: bool = False

    @property
    def unassigned(self) -> bool:
        return not self.discovered or bool(self.returning) or self.given < len(self.pending)

    def on_discovered(self, splits: tuple[Split, ...], state: bytes, *, bounded: bool, endless: bool) -> SplitAssigner:
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
        return replace(
            self,
            enumerator=state,
            open=_restated(self.open, restated),
            returning=(*_restated(self.returning, restated), *beside),
            known=add_numbers(self.known, (split.number for split in splits)),
            pending=(*self.pending[self.given :], *new) if new else self.pending,
            given=0 if new else self.given,
            discovered=True,
            bounded=self.bounded or bounded,
            endless=self.endless or endless,
        )

    def on_wanted(self, message: SplitsWanted) -> SplitAssigner:
        share = self.shares[message.slot]
        unconfirmed = tuple(one for one in share.unconfirmed if one.sequence >= message.received)
        # Asked before the last assignment arrived: that one is the answer, however often the question is repeated.
        asks = message.asks and message.received >= share.sequence
        return self._with(message.slot, replace(share, unconfirmed=unconfirmed, wants=asks, unanswered=asks))

    def unconfirmed(self, slot: SlotIndex | None = None) -> tuple[AssignSplits, ...]:
        """What that reader, or any, has been sent and may have missed; in order."""
        shares = self.shares if slot is None else (self.shares[slot],)
        return tuple(message for share in shares for message in share.unconfirmed)

    def assign(
        self, attempt: Attempt, asked: SlotIndex | None = None
    ) -> tuple[SplitAssigner, tuple[AssignSplits, ...]]:
        """Give out what can be given out now. Called after every change; sorted by slot.

        ``asked``: nothing has changed but that this reader asked: whoever else wants something has waited in vain already.
        """
        deals: dict[int, list[SplitPosition]] = {}
        assigner = self
        if assigner.discovered:
            for number, position in enumerate(assigner.returning):
                deals.setdefault(number % len(self.shares), []).append(position)
            assigner = replace(assigner, returning=())
        if assigner.endless:
            fresh = assigner.pending[assigner.given :]
            for split in fresh:
                slot = split.number % len(self.shares)
                deals.setdefault(slot, []).append(SplitPosition(split=split, position=None))
            assigner = replace(assigner, given=len(assigner.pending))
        everyone = range(len(self.shares))
        for slot in everyone if asked is None else (asked,):
            if assigner.shares[slot].wants and assigner.given < len(assigner.pending):
                # Many small splits go in handfuls, the last ones singly, so that readers end together.
                left = len(assigner.pending) - assigner.given
                count = min(max(left // (2 * len(self.shares)), 1), SPLITS_PER_REQUEST_MAX)
                taken = assigner.pending[assigner.given : assigner.given + count]
                deals.setdefault(slot, []).extend(SplitPosition(split=split, position=None) for split in taken)
                assigner = replace(assigner, given=assigner.given + count)
        no_more = assigner.bounded and not assigner.unassigned
        messages: list[AssignSplits] = []
        concerned = everyone if asked is None or no_more else sorted({*deals, asked})
        for slot in concerned:
            share = assigner.shares[slot]
            splits = tuple(deals.get(slot, ()))
            nothing_yet = share.unanswered and assigner.discovered
            if not splits and not nothing_yet and not (no_more and not share.told_no_more):
                continue
            message = AssignSplits(
                attempt=attempt,
                operator=self.operator,
                subtask=SlotIndex(slot),
                sequence=share.sequence,
                splits=splits,
                unassigned=assigner.unassigned,
                no_more=no_more,
            )
            messages.append(message)
            assigner = assigner._with(
                SlotIndex(slot),
                Share(
                    sequence=share.sequence + 1,
                    unconfirmed=(*share.unconfirmed, message),
                    wants=share.wants and not splits,
                    told_no_more=share.told_no_more or no_more,
                ),
            )
        return assigner, tuple(messages)

    def fold(self, progress: Iterable[SourceProgress]) -> SourceState:
        """The source at a checkpoint, from what every reader reported at its barrier.

        Called when all have acknowledged, with the enumerator's newest snapshot: it knows every split a reader can
        mention. A split that was open before and that no reader mentions is on its way to one: its position stays.
        """
        progress = tuple(progress)
        done = add_numbers(self.done, (number for one in progress for number in one.finished))
        positions = {position.split.number: position for position in self.open}
        positions.update((position.split.number, position) for one in progress for position in one.open)
        return SourceState(
            operator=self.operator,
            enumerator=self.enumerator,
            done=done,
            open=tuple(positions[number] for number in sorted(positions) if not contains(done, number)),
        )

    def on_completed(self, state: SourceState) -> SplitAssigner:
        """The checkpoint with this state is complete: positions are reported relative to it from now on."""
        return replace(self, done=state.done, open=state.open)

    def _with(self, slot: SlotIndex, share: Share) -> SplitAssigner:
        return replace(self, shares=(*self.shares[:slot], share, *self.shares[slot + 1 :]))


def _restated(positions: tuple[SplitPosition, ...], splits: dict[int, Split]) -> tuple[SplitPosition, ...]:
    if not splits:
        return positions
    return tuple(
        SplitPosition(split=splits.get(one.split.number, one.split), position=one.position) for one in positions
    )


def fresh(operator: OperatorId, parallelism: int) -> SplitAssigner:
    return SplitAssigner(operator, (Share(),) * parallelism)


def restored(state: SourceState, parallelism: int) -> SplitAssigner:
    """As the checkpoint left it, for any number of readers."""
    return replace(
        fresh(state.operator, parallelism),
        enumerator=state.enumerator,
        done=state.done,
        open=state.open,
        returning=state.open,
    )
