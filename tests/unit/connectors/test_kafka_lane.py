"""Batches of one partition on their way: what is sent again, and in which order, whatever brokers answer."""

from __future__ import annotations

import random

import polars as pl

from tidegate.connectors.kafka.client.delivery import Delivery
from tidegate.connectors.kafka.client.lane import IN_FLIGHT_MAX, Lane
from tidegate.connectors.kafka.client.pauses import FIRST_SECONDS, SECONDS_MAX
from tidegate.connectors.kafka.client.sender import Sender
from tidegate.connectors.kafka.protocol.record_batch import Messages, RecordBatch
from tidegate.connectors.kafka.protocol.transactions import Handle
from tidegate.model.errors import DataError

BATCH_BYTES = 2_000


def lane(behind: Lane | None = None) -> Lane:
    return Lane(Handle("id", 1, 0), "topic", 0, BATCH_BYTES, behind)


def known() -> Lane:
    """A lane whose first batch has arrived."""
    one = lane()
    one.put(some(1))
    (first,) = sent(one)
    one.taken(first)
    return one


def some(count: int, size: int = 100) -> Messages:
    return Messages.of(pl.DataFrame({"value": [b"x" * size] * count}), has_key=False)


def sent(one: Lane, now_s: float = 0.0) -> list[RecordBatch]:
    found: list[RecordBatch] = []
    while one.has_turn and one.wants(now_s):
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
    one = known()
    one.put(some(200))
    batches = sent(one)
    assert len(batches) == IN_FLIGHT_MAX
    assert all(batch.size_bytes <= BATCH_BYTES for batch in batches)
    one.taken(batches[0])
    assert len(sent(one)) == 1


def test_the_first_batch_travels_alone() -> None:
    """A broker that knows nothing of a transaction takes whatever number comes first, and nothing before it afterwards."""
    one = lane()
    one.put(some(60))
    (first,) = sent(one)
    one.lost(first, 0.0)
    assert sent(one, SECONDS_MAX) == [first]
    one.taken(first)
    assert len(sent(one, SECONDS_MAX)) > 1


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
    one = known()
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


def test_what_is_written_after_a_checkpoint_leaves_when_all_of_it_has_arrived_and_not_before() -> None:
    """T75: brokers keep no order between two transactions."""
    before = known()
    before.put(some(20))
    (first,) = sent(before)
    after = lane(before)
    after.put(some(1))
    assert after.wants(0.0) and not sent(after)
    (second,) = sent(before)
    assert first.count + second.count == 20, "the rest has nothing to gather for any more"
    before.lost(first, 0.0)
    before.taken(second)
    assert not sent(after, SECONDS_MAX)
    (again,) = sent(before, SECONDS_MAX)
    assert again is first and not sent(after, SECONDS_MAX)
    before.taken(again)
    assert len(sent(after)) == 1


def test_a_lane_waits_for_all_before_it_and_keeps_none_of_them() -> None:
    first = lane()
    second = lane(first)
    third = lane(second)
    for one in (first, second, third):
        one.put(some(1))
    (batch,) = sent(first)
    assert not sent(second) and not sent(third)
    first.taken(batch)
    assert not sent(third)
    (batch,) = sent(second)
    second.taken(batch)
    assert sent(third)
    assert second._behind is None and third._behind is None


def test_transactions_that_share_no_partition_do_not_wait_for_each_other_and_those_behind_a_failure_fail() -> None:
    sender = Sender({"bootstrap.servers": "127.0.0.1:1"})
    before, failed, after = deliveries = [
        Delivery(Handle(f"id-{n}", n, 0), BATCH_BYTES, sender.changed) for n in range(3)
    ]
    sender._deliveries += deliveries
    for delivery, partition in zip(deliveries, (0, 1, 0), strict=True):
        delivery.give(("topic", partition), some(2))
        delivery.accept(sender._newest)
    assert [lane.has_turn for one in deliveries for lane in one.lanes.values()] == [True, True, False]
    assert [sender.left(one) for one in deliveries] == [2, 4, 6]
    sender._fail(failed, DataError("too large"))
    assert before.failure is None
    assert failed.failure is not None and after.failure is failed.failure
    sender.forget(before)
    assert [sender.left(one) for one in deliveries[1:]] == [2, 4]
    sender.close()


def test_a_lane_that_may_send_again_before_the_sender_has_looked_is_not_slept_over() -> None:
    """Between two looks at the clock any time may pass: it is asked as of the look that found the lane waiting."""
    sender = Sender({"bootstrap.servers": "127.0.0.1:1"})
    delivery = Delivery(Handle("id", 1, 0), BATCH_BYTES, sender.changed)
    delivery.give(("topic", 0), some(1))
    delivery.accept({})
    long_ago_s = 10.0
    delivery.lanes["topic", 0].pause(long_ago_s)
    assert sender._wakes_s([delivery], long_ago_s) == long_ago_s + FIRST_SECONDS
    sender.close()


def test_whatever_happens_a_broker_gets_every_message_once_and_in_order() -> None:
    """T75. A broker takes any number of a transaction that it does not know, then the next one only; it knows the last ones again, and
    refuses any other. The next transaction begins at any time, and none of its messages comes there before all of the one before it."""
    for seed in range(50):
        chance = random.Random(seed)
        lanes, given, now_s = [lane()], [0], 0.0
        taken: list[tuple[int, int]] = []
        """Transaction and number of message, as the broker has them."""
        on_their_way: list[tuple[int, RecordBatch]] = []
        while sum(given) < 300 or not all(one.is_idle for one in lanes):
            now_s += chance.choice((0.0, SECONDS_MAX))
            if sum(given) < 300 and chance.random() < 0.5:
                if given[-1] and chance.random() < 0.3:
                    lanes.append(lane(lanes[-1]))
                    given.append(0)
                count = chance.randrange(1, 40)
                lanes[-1].put(some(count))
                given[-1] += count
            for number, one in enumerate(lanes):
                on_their_way += [(number, batch) for batch in sent(one, now_s)]
            while on_their_way and chance.random() < 0.6:
                number, batch = on_their_way.pop(0)
                one, has = lanes[number], sum(of == number for of, _ in taken)
                if chance.random() < 0.2:
                    one.lost(batch, now_s)  # It never came there.
                elif has and batch.sequence > has:
                    assert one.is_recovering, "only behind one that was lost"
                    one.lost(batch, now_s)
                else:
                    if batch.sequence >= has:
                        taken += [(number, batch.sequence + n) for n in range(batch.count)]
                    if chance.random() < 0.2:
                        one.lost(batch, now_s)  # Its answer was lost.
                    else:
                        one.taken(batch)
        assert taken == [(number, n) for number, count in enumerate(given) for n in range(count)]
