"""Whether a partition of which nothing comes has nothing, or nobody says so. Only an answer is a reason to go on without its rows."""

from __future__ import annotations

import time

from tidegate.connectors.kafka.client.feeds import NO_LOG, Feed

SLACK_SECONDS = 0.25
"""So much longer than between the answers it may seem to have been quiet."""


class Emptiness:
    """For the reader of one partition, in the slot's thread. Offsets are those up to which rows have been handed out.

    Records of open transactions count as there, although only committed ones may be read: a transaction becomes visible in one
    partition after the other, and rows of the first would otherwise make those of the last late. It holds time up for as long as
    brokers let a transaction last.
    """

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._quiet_since_s: float | None = time.monotonic()
        """None: the last read brought rows."""
        self._counted_s = 0.0
        self._age_s: float | None = None
        """How old the first answer was when it was seen; None: there was none since there were rows."""
        self.answers = 0
        """How often a broker has said that nothing is there. A log only grows: two answers speak for the time between them."""

    def rows(self) -> None:
        self._quiet_since_s = self._age_s = None

    def nothing(self, offset: int) -> None:
        """There were none to hand out."""
        now_s = time.monotonic()
        if self._quiet_since_s is None:
            self._quiet_since_s = now_s
        end = self._feed.log_end
        if end is None or end.offset not in (offset, NO_LOG):
            return
        # Whoever counts goes by the time at which answers are seen. One that was given long ago, while nobody asked for rows, says
        # nothing about the time since; unless the first one waited as long.
        age_s = now_s - end.at_s
        if end.at_s > self._counted_s and (self._age_s is None or age_s <= self._age_s + SLACK_SECONDS):
            self._age_s = age_s if self._age_s is None else self._age_s
            self._counted_s = end.at_s
            self.answers += 1

    def awaits_rows(self, offset: int) -> bool:
        """Records are known to be there, or nobody says that there are none."""
        end = self._feed.log_end
        return (end is not None and end.offset > offset) or bool(self.unanswered(offset))

    def unanswered(self, offset: int) -> str:
        """Why nobody knows whether rows are there; empty: somebody does."""
        feed, end = self._feed, self._feed.log_end
        if feed.trouble or self._quiet_since_s is None:
            return feed.trouble
        if end is not None and end.offset > offset:
            return f"a transaction is open at offset {offset}" if feed.end == offset else ""
        heard_s = max(self._quiet_since_s, end.at_s if end is not None else 0.0)
        return "no answer" if time.monotonic() - heard_s > feed.patience_s else ""
