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
    """What one reader has been given in this attempt."""

    held: frozenset[int] = frozenset()
    """Given and not yet reported finished."""
    sequence: int = 0
    """Of the next AssignSplits."""
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
    """Open at the restore, not given to a reader yet: first in line, with their positions."""
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
        return replace(
            self,
            enumerator=state,
            known=add_numbers(self.known, (split.number for split in splits)),
            pending=(*self.pending[self.given :], *new) if new else self.pending,
            given=0 if new else self.given,
            discovered=True,
            bounded=self.bounded or bounded,
            endless=self.endless or endless,
        )

    def on_wanted(self, message: SplitsWanted) -> SplitAssigner:
        share = self.shares[message.slot]
        held = share.held.difference(message.finished)
        # It holds fewer than we gave: an assignment is still on its way, and this request was sent before it arrived.
        asks = len(held) <= message.open
        return self._with(message.slot, replace(share, held=held, wants=asks, unanswered=asks))

    def assign(self, attempt: Attempt) -> tuple[SplitAssigner, tuple[AssignSplits, ...]]:
        """Give out what can be given out now. Called after every change; sorted by slot."""
        deals: dict[int, list[SplitPosition]] = {}
        assigner = self
        for number, position in enumerate(assigner.returning):
            deals.setdefault(number % len(self.shares), []).append(position)
        assigner = replace(assigner, returning=())
        if assigner.endless:
            fresh = assigner.pending[assigner.given :]
            for split in fresh:
                slot = split.number % len(self.shares)
                deals.setdefault(slot, []).append(SplitPosition(split=split, position=None))
            assigner = replace(assigner, given=len(assigner.pending))
        for slot, share in enumerate(assigner.shares):
            if share.wants and assigner.given < len(assigner.pending):
                # Many small splits go in handfuls, the last ones singly, so that readers end together.
                left = len(assigner.pending) - assigner.given
                count = min(max(left // (2 * len(self.shares)), 1), SPLITS_PER_REQUEST_MAX)
                taken = assigner.pending[assigner.given : assigner.given + count]
                deals.setdefault(slot, []).extend(SplitPosition(split=split, position=None) for split in taken)
                assigner = replace(assigner, given=assigner.given + count)
        no_more = assigner.bounded and not assigner.unassigned
        messages: list[AssignSplits] = []
        for slot, share in enumerate(assigner.shares):
            splits = tuple(deals.get(slot, ()))
            nothing_yet = share.unanswered and assigner.discovered
            if not splits and not nothing_yet and not (no_more and not share.told_no_more):
                continue
            messages.append(
                AssignSplits(
                    attempt=attempt,
                    operator=self.operator,
                    subtask=SlotIndex(slot),
                    sequence=share.sequence,
                    splits=splits,
                    unassigned=assigner.unassigned,
                    no_more=no_more,
                )
            )
            assigner = assigner._with(
                SlotIndex(slot),
                Share(
                    held=share.held | {position.split.number for position in splits},
                    sequence=share.sequence + 1,
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
        shares = tuple(
            replace(share, held=frozenset(one for one in share.held if not contains(state.done, one)))
            for share in self.shares
        )
        return replace(self, done=state.done, open=state.open, shares=shares)

    def _with(self, slot: SlotIndex, share: Share) -> SplitAssigner:
        return replace(self, shares=(*self.shares[:slot], share, *self.shares[slot + 1 :]))


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
