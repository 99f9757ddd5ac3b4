"""A partition that is being fetched: what the thread that fetches and the slot's thread know about it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from tidegate.connectors.kafka.client.feeds import Feed
from tidegate.connectors.kafka.client.pauses import Pauses
from tidegate.connectors.kafka.protocol.fetching import EARLIEST
from tidegate.connectors.kafka.protocol.unpacking import Received

NO_EPOCH = -1


@dataclass(slots=True)
class Stream(Feed):
    """Its fields are for whoever holds the fetcher's lock."""

    following: int = EARLIEST
    """The next offset to ask for."""
    epoch: int = NO_EPOCH
    """The epoch of the leader that wrote the last batch."""
    version: int = 0
    """Answers to questions of an older one are of no interest."""
    is_asked: bool = False
    asks_s: float = 0.0
    """Not before."""
    pauses: Pauses = field(default_factory=Pauses)
    received: deque[Received] = field(default_factory=deque)
    received_bytes: int = 0
    is_sure: bool = False
    """Its leader knows how much of the log is there: asked since there was trouble, it has said where the log ends."""
    asks_end: bool = False
    """It is to say so next."""
    found_end: int = -1
    found_loss: str = ""
    """What ``end`` and ``lost`` will be when everything received has been taken. Readers look at those when nothing is left for
    them: a new end must not come before the rows that lead to it."""

    def begin(self, offset: int) -> None:
        """Anew, from there."""
        self.version += 1
        self.following, self.epoch = offset, NO_EPOCH
        self.end = self.found_end = -1
        self.lost = self.found_loss = ""
        self.is_asked, self.asks_s = False, 0.0
        self.log_end, self.trouble = None, ""
        self.is_sure = self.asks_end = False
        self.chunks.clear()
        self.received.clear()
        self.received_bytes = 0

    def arrived(self, received: Received, following: int, epoch: int) -> None:
        self.received.append(received)
        self.received_bytes += received.size_bytes
        self.following, self.epoch = following, epoch

    def take(self) -> Received | None:
        """None: there is nothing, and what was found behind it is known now."""
        if not self.received:
            self.end, self.lost = self.found_end, self.found_loss
            return None
        received = self.received.popleft()
        self.received_bytes -= received.size_bytes
        return received

    def take_more(self, bytes_max: int) -> Iterator[Received]:
        while self.received and (bytes_max := bytes_max - self.received[0].size_bytes) > 0:
            received = self.take()
            assert received is not None
            yield received
