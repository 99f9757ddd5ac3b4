"""Batches of one partition on their way: what is sent again, and in which order, whatever brokers answer."""

from __future__ import annotations

import random

import polars as pl

from tidegate.connectors.kafka.delivery import Delivery
from tidegate.connectors.kafka.lane import IN_FLIGHT_MAX, Lane
from tidegate.connectors.kafka.record_batch import Messages, RecordBatch
from tidegate.connectors.kafka.sender import Sender
from tidegate.connectors.kafka.wire.pauses import FIRST_SECONDS, SECONDS_MAX
from tidegate.connectors.kafka.wire.transactions import Handle

BATCH_BYTES = 2_000


def lane() -> Lane:
    return Lane(Handle("id", 1, 0), "topic", 0, BATCH_BYTES)


def some(count: int, size: int = 100) -> Messages:
    return Messages.of(pl.DataFrame({"value": [b"x" * size] * count}), has_key=False)


def sent(one: Lane, now_s: float = 0.0) -> list[RecordBatch]:
    found: list[RecordBatch] = []
    while one.wants(now_s):
        found.append(one.send(0))
    return found


def test_with_nothing_on_its_way_messages_leave_at_once_and_gather_otherwise() -> None:
    one = lane()
    one.put(some(1))
    (first,) = sent(one)
    one.put(some(1))
    one.put(some(2))
    assert not one.wants(0.0)
    one.taken(first)
    (second,) = sent(one)
    assert (second.sequence, second.count) == (1, 3)
    one.taken(second)
    assert one.is_idle


def test_full_batches_leave_until_as_many_are_on_their_way_as_a_broker_remembers() -> None:
    one = lane()
    one.put(some(200))
    batches = sent(one)
    assert len(batches) == IN_FLIGHT_MAX
    assert all(batch.size_bytes <= BATCH_BYTES for batch in batches)
    one.taken(batches[0])
    assert len(sent(one)) == 1


def test_a_message_larger_than_a_batch_goes_alone() -> None:
    one = lane()
    for messages in (some(1), some(1, 5_000), some(1)):
        one.put(messages)
    counts: list[int] = []
    while not one.is_idle:
        for batch in sent(one):
            counts.append(batch.count)
            one.taken(batch)
    assert counts == [1, 1, 1]


def test_what_was_lost_is_sent_again_with_all_behind_it_and_only_when_their_answers_are_there() -> None:
    one = lane()
    one.put(some(60))
    first, second, third, *_ = sent(one)
    one.lost(first, 0.0)
    later = SECONDS_MAX
    assert one.is_recovering
    assert not one.wants(later), "the others may still be taken, or come too early"
    one.taken(second)
    one.lost(third, 0.0)
    assert not one.is_recovering
    assert not one.wants(0.0), "at once would be too often"
    again = sent(one, later)
    assert again[0] is first
    assert again[1] is third


def test_a_lane_that_may_send_again_before_the_sender_has_looked_is_not_slept_over() -> None:
    """Between two looks at the clock any time may pass: it is asked as of the look that found the lane waiting."""
    sender = Sender({"bootstrap.servers": "127.0.0.1:1"})
    delivery = Delivery(Handle("id", 1, 0), BATCH_BYTES, sender.changed)
    delivery.give(("topic", 0), some(1))
    delivery.accept()
    long_ago_s = 10.0
    delivery.lanes["topic", 0].pause(long_ago_s)
    assert sender._wakes_s([delivery], long_ago_s) == long_ago_s + FIRST_SECONDS
    sender.close()


def test_whatever_happens_a_broker_gets_every_message_once_and_in_order() -> None:
    """A broker takes the next number, knows the last ones again, and refuses any other."""
    for seed in range(50):
        chance = random.Random(seed)
        one, given, taken, now_s = lane(), 0, 0, 0.0
        on_their_way: list[RecordBatch] = []
        while given < 300 or not one.is_idle:
            now_s += chance.choice((0.0, SECONDS_MAX))
            if given < 300 and chance.random() < 0.5:
                count = chance.randrange(1, 40)
                one.put(some(count))
                given += count
            on_their_way += sent(one, now_s)
            while on_their_way and chance.random() < 0.6:
                batch = on_their_way.pop(0)
                if chance.random() < 0.2:
                    one.lost(batch, now_s)  # It never came there.
                elif batch.sequence > taken:
                    assert one.is_recovering, "only behind one that was lost"
                    one.lost(batch, now_s)
                else:
                    taken = max(taken, batch.sequence + batch.count)
                    if chance.random() < 0.2:
                        one.lost(batch, now_s)  # Its answer was lost.
                    else:
                        one.taken(batch)
        assert taken == given
