"""The exactly-once Kafka sink against a real broker: what a reader of committed rows sees, whatever happened in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import polars as pl
import pytest
from tests.integration.connectors.kafka_sink_kit import HandSink, rows, sink_node, values
from tests.servers.kafka import Broker

from tidegate.connectors.kafka.protocol.transactions import Handle
from tidegate.connectors.kafka.sink.names import decode, encode
from tidegate.model.errors import CorruptSnapshot, TidegateError, Unavailable
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex
from tidegate.model.snapshot import Committable
from tidegate.model.types import INTEGER, STRING, Field


def test_rows_are_visible_after_the_commit_and_not_before(kafka: Broker, topic: str, hand: HandSink) -> None:
    hand.write("a", "b")
    prepared = hand.prepare(1)
    assert values(kafka, topic, 2, committed=False) == ["a", "b"]
    assert values(kafka, topic, 1, seconds=0.5) == []
    hand.commit(1, prepared)
    assert values(kafka, topic, 2) == ["a", "b"]


def test_a_commit_may_be_repeated_and_raced(kafka: Broker, topic: str, hand: HandSink) -> None:
    """T1, T3: two drivers commit the same checkpoint, each several times and at once."""
    hand.write("a")
    prepared = hand.prepare(1)
    others = [HandSink(hand.node, attempt) for attempt in (2, 3)]
    racers = [
        threading.Thread(target=lambda one=one: [one.committer.commit(prepared) for _ in range(3)]) for one in others
    ]
    for racer in racers:
        racer.start()
    hand.committer.commit(prepared)
    for racer in racers:
        racer.join()
    HandSink(hand.node, 4).committer.commit(prepared)
    assert values(kafka, topic, 1) == ["a"]


def test_nothing_written_prepares_nothing(kafka: Broker, topic: str, hand: HandSink) -> None:
    """Ending a transaction without a record is an error for Kafka."""
    assert hand.prepare(1) == ()
    hand.write("a")
    prepared = hand.prepare(2)
    assert len(prepared) == 1
    assert hand.prepare(3) == ()
    hand.commit(3, prepared)
    assert values(kafka, topic, 1) == ["a"]


def test_rows_after_the_barrier_do_not_become_visible_with_those_before(
    kafka: Broker, topic: str, hand: HandSink
) -> None:
    """A prepared transaction is never written to again, though its commit may come at any time."""
    hand.write("before")
    prepared = hand.prepare(1)
    hand.write("after")
    hand.commit(1, prepared)
    hand.write("after too")
    assert values(kafka, topic, 3, committed=False) == ["after", "after too", "before"]
    assert values(kafka, topic, 1) == ["before"]


def test_a_stale_commit_never_reaches_the_next_transaction_under_the_same_id(
    kafka: Broker, topic: str, hand: HandSink
) -> None:
    """Handle reuse: without a new epoch, repeating the commit of checkpoint 1 would commit the unfinished one of checkpoint n."""
    first: Handle | None = None
    for checkpoint in range(1, 20):
        hand.write(f"{checkpoint}")
        prepared = hand.prepare(checkpoint)
        handle = decode(prepared[0].payload).handle
        if first is None:
            first, committed = handle, prepared
        elif handle.transactional_id == first.transactional_id:
            break
        hand.commit(checkpoint, prepared)
    assert first is not None
    assert handle.transactional_id == first.transactional_id, "the id never came back"
    assert handle.epoch > first.epoch
    late = HandSink(hand.node)
    with pytest.raises(CorruptSnapshot):  # Late by far more than the markers allow: refused, not carried out.
        late.committer.commit(committed)
    assert f"{checkpoint}" not in values(kafka, topic, checkpoint - 1)


def test_an_id_is_not_used_again_while_a_recovery_may_want_its_transaction(
    kafka: Broker, topic: str, hand: HandSink
) -> None:
    """The commit of checkpoint n is known, its marker may be missing: whoever restores n commits it again, and must not be told
    that it is lost."""
    for checkpoint in range(1, 8):
        hand.write(f"{checkpoint}")
        prepared = hand.prepare(checkpoint)
        hand.commit(checkpoint, prepared)
        hand.write(f"{checkpoint} open")  # It takes the next id, and orders the one after it.
        hand.writer()._spare.result(30)
        HandSink(hand.node, 2).committer.commit(prepared)
    assert len(values(kafka, topic, 13)) == 13
    assert hand.writer()._pool.size <= 6


CHILD = """
    import sys, time
    from tests.integration.connectors.kafka_sink_kit import HandSink, sink_node
    sink = HandSink(sink_node(sys.argv[1], sys.argv[2], pipeline=sys.argv[2]))
    sink.write(*(f"row {n}" for n in range(100)))
    print(sink.prepare(1)[0].payload.hex() if sys.argv[3] == "prepare" else sink.writer()._current.producer.flush(), flush=True)
    time.sleep(600)
"""


def killed_after(kafka: Broker, topic: str, step: str) -> tuple[Committable, ...]:
    """A slot process that dies by SIGKILL after ``step``."""
    command = [sys.executable, "-c", textwrap.dedent(CHILD), kafka.bootstrap, topic, step]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3])
    assert child.stdout is not None
    said = child.stdout.readline().strip()
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    if step != "prepare":
        return ()
    payload = bytes.fromhex(said)
    return (Committable(checkpoint=CheckpointId(1), subtask=SlotIndex(0), number=0, payload=payload),)


def test_a_dead_slots_prepared_rows_are_committed_by_the_next_driver(kafka: Broker, topic: str) -> None:
    prepared = killed_after(kafka, topic, "prepare")
    recovered = HandSink(sink_node(kafka, topic, pipeline=topic), attempt=2)
    recovered.committer.commit(prepared)
    recovered.committer.sweep(Attempt(2), prepared)
    assert len(values(kafka, topic, 100)) == 100


def test_a_dead_slots_open_rows_are_aborted_and_readers_go_on(kafka: Broker) -> None:
    """T54: a crash before the first checkpoint. Without the sweep, readers of committed rows wait for the open transaction."""
    topic = kafka.topic()
    killed_after(kafka, topic, "write")
    recovered = HandSink(sink_node(kafka, topic, pipeline=topic), attempt=2)
    recovered.write(*(f"again {n}" for n in range(50)))
    recovered.commit(1, recovered.prepare(1))
    assert values(kafka, topic, 1, seconds=1.0) == []
    recovered.committer.sweep(Attempt(2), ())
    assert len(values(kafka, topic, 50)) == 50
    recovered.close()


def test_a_sweep_leaves_alone_what_is_not_its_own(kafka: Broker, topic: str) -> None:
    """What the manifest names, newer attempts, other sinks, other pipelines, and names that only look alike."""
    kept = HandSink(sink_node(kafka, topic, pipeline=topic))
    kept.write("kept")
    named = kept.prepare(1)
    others = [
        HandSink(sink_node(kafka, topic, pipeline=topic), attempt=2),
        HandSink(sink_node(kafka, topic, pipeline=topic, sink="sink2")),
        HandSink(sink_node(kafka, topic, pipeline=topic, sink="sin")),
        HandSink(sink_node(kafka, topic, pipeline=f"{topic}/sink")),
        HandSink(sink_node(kafka, topic, pipeline="pipeline-other")),
    ]
    prepared: list[tuple[HandSink, tuple[Committable, ...]]] = []
    for number, other in enumerate(others):
        other.write(f"other {number}")
        prepared.append((other, other.prepare(1)))
    kept.write("abandoned")
    kept.writer()._current.producer.flush()  # type: ignore[union-attr]
    sweeper = HandSink(sink_node(kafka, topic, pipeline=topic), attempt=2)
    sweeper.committer.sweep(Attempt(2), named)
    assert sweeper.wire.open_ids(sweeper.names.prefix) == tuple(
        sorted(decode(one.payload).transactional_id for one in (*named, *prepared[0][1]))
    )
    sweeper.committer.commit(named)
    for other, committables in prepared:
        other.committer.commit(committables)
    assert values(kafka, topic, 6) == ["kept", *(f"other {number}" for number in range(5))]
    for one in (kept, *others):
        with pytest.raises(TidegateError) if one is kept else nullcontext():
            one.write("more")
            one.writer()._current.producer.flush()  # type: ignore[union-attr]
        one.close()


def test_scaling_down_leaves_no_transaction_behind(kafka: Broker, topic: str) -> None:
    """T46, T54: eight subtasks prepared and went on writing; two take over."""
    wide = HandSink(sink_node(kafka, topic, pipeline=topic))
    prepared: tuple[Committable, ...] = ()
    for subtask in range(8):
        wide.write(f"row {subtask}", subtask=subtask)
        prepared += wide.prepare(1, subtask)
    for subtask in range(8):
        wide.write("lost with the attempt", subtask=subtask)
        wide.writer(subtask)._current.producer.flush()  # type: ignore[union-attr]
    narrow = HandSink(wide.node, attempt=2)
    narrow.committer.commit(prepared)
    narrow.committer.sweep(Attempt(2), prepared)
    assert narrow.wire.open_ids(narrow.names.prefix) == ()
    for subtask in range(2):
        narrow.write(f"new {subtask}", subtask=subtask)
        prepared += narrow.prepare(2, subtask)
    narrow.commit(2, prepared)
    assert values(kafka, topic, 10) == [f"new {n}" for n in range(2)] + [f"row {n}" for n in range(8)]
    wide.close()
    narrow.close()


def test_a_zombie_that_goes_on_is_swept_again(kafka: Broker, topic: str, hand: HandSink) -> None:
    """T9: a slot of attempt 1 wakes after the sweep. What it had open is fenced; what it begins then is aborted by the next one."""
    hand.write("zombie")
    hand.writer()._current.producer.flush()  # type: ignore[union-attr]
    successor = HandSink(hand.node, attempt=2)
    successor.committer.sweep(Attempt(2), ())
    with pytest.raises(TidegateError):
        hand.write("on")
        hand.prepare(1)
    hand.write("zombie again", subtask=1)
    prepared = hand.prepare(2, subtask=1)
    assert len(successor.wire.open_ids(successor.names.prefix)) == 1
    successor.committer.sweep(Attempt(2), ())
    assert successor.wire.open_ids(successor.names.prefix) == ()
    successor.write("row")
    successor.commit(1, successor.prepare(1))
    with pytest.raises(CorruptSnapshot):
        hand.committer.commit(prepared)
    assert values(kafka, topic, 1) == ["row"]
    successor.close()


def test_what_was_swept_cannot_be_begun_again_under_the_same_id(kafka: Broker, topic: str) -> None:
    """T9: only ended and not fenced, a zombie's id would take its next record as the begin of a new transaction."""
    schema = (Field("value", STRING), Field("partition", INTEGER))
    zombie = HandSink(sink_node(kafka, topic, pipeline=topic, schema=schema))

    def write(partition: int) -> None:
        row = {"value": ["zombie"], "partition": [partition]}
        zombie.writer().write(pl.DataFrame(row, schema={"value": pl.String, "partition": pl.Int32}))
        zombie.writer()._current.producer.flush()  # type: ignore[union-attr]

    write(0)
    successor = HandSink(zombie.node, attempt=2)
    successor.committer.sweep(Attempt(2), ())
    with pytest.raises(TidegateError):
        write(1)
    assert successor.wire.open_ids(successor.names.prefix) == ()
    zombie.close()


def test_a_driver_that_commits_minutes_late_changes_nothing(kafka: Broker, topic: str, hand: HandSink) -> None:
    """Superseded: its successor has restored the same manifest, committed, swept and gone on."""
    hand.write("a")
    prepared = hand.prepare(1)
    successor = HandSink(hand.node, attempt=2)
    successor.committer.commit(prepared)
    successor.committer.sweep(Attempt(2), prepared)
    successor.write("b")
    more = successor.prepare(2)
    hand.committer.commit(prepared)
    hand.committer.sweep(Attempt(1), prepared)
    successor.commit(2, (*prepared, *more))
    hand.committer.commit(prepared)
    assert values(kafka, topic, 2) == ["a", "b"]
    successor.close()


def test_a_lost_transaction_is_an_alarm_that_names_the_checkpoint(kafka: Broker, topic: str) -> None:
    """Its time ran out between prepare and commit: the brokers have aborted it."""
    node = sink_node(kafka, topic, pipeline=topic, kafka_transaction_timeout_ms="5000")
    short = HandSink(node)
    short.write("lost")
    prepared = short.prepare(41)
    handle = decode(prepared[0].payload).handle
    _until(lambda: short.wire.describe(handle.transactional_id).state == "CompleteAbort")
    for _ in range(2):  # Neither the first time nor a repetition passes in silence.
        with pytest.raises(CorruptSnapshot, match="checkpoint 41") as alarm:
            short.committer.commit(prepared)
        assert handle.transactional_id in alarm.value.message
    assert values(kafka, topic, 1, seconds=0.5) == []
    given_up = HandSink(sink_node(kafka, topic, pipeline=topic, onLostTransaction="skip"))
    given_up.committer.commit(prepared)
    short.close()


def test_a_transaction_that_times_out_before_the_barrier_is_no_loss(kafka: Broker, topic: str) -> None:
    """Prepare notices: the attempt fails and reads the rows again. Found at the commit, they would be lost."""
    slow = HandSink(sink_node(kafka, topic, pipeline=topic, kafka_transaction_timeout_ms="1000"))
    slow.write("slow")
    current = slow.writer()._current
    assert current is not None
    current.producer.flush()
    _until(lambda: slow.wire.describe(current.handle.transactional_id).state == "CompleteAbort")
    with pytest.raises(Unavailable, match="ended before it was prepared"):
        slow.prepare(1)
    slow.close()


def test_a_closed_writer_leaves_nothing_open(kafka: Broker, topic: str) -> None:
    """A query that is stopped does not keep readers waiting until its transaction times out."""
    stopped = HandSink(sink_node(kafka, topic, pipeline=topic))
    stopped.write("unfinished")
    stopped.writer()._current.producer.flush()  # type: ignore[union-attr]
    stopped.close()
    wire = HandSink(stopped.node).wire
    assert wire.open_ids(stopped.names.prefix) == ()


def test_another_sinks_committable_is_not_taken_for_ours() -> None:
    assert decode(encode(Handle("id", 7, 3))).handle == Handle("id", 7, 3)
    with pytest.raises(CorruptSnapshot):
        decode(b'{"type": "files/1"}')


def test_many_rows_arrive_once_each_and_in_order_per_partition(kafka: Broker, topic: str, hand: HandSink) -> None:
    """More than the client's queue holds: the writer waits for room and keeps the order."""
    hand.close()
    small = HandSink(sink_node(kafka, topic, pipeline=f"{topic}-small", kafka_queue_buffering_max_messages="1000"))
    for start in range(0, 30_000, 6_000):
        small.writer().write(rows(f"{n:05d}" for n in range(start, start + 6_000)))
    small.commit(1, small.prepare(1))
    found = kafka.read(topic, 30_000)
    assert sorted(m.value() for m in found) == [f"{n:05d}".encode() for n in range(30_000)]
    for partition in (0, 1):
        seen = [m.value() for m in found if m.partition() == partition]
        assert seen == sorted(seen, key=lambda value: value or b"")
    small.close()


def _until(true: Callable[[], bool], seconds: float = 90.0) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it does not come"
        time.sleep(0.05)
