"""What ``tools/kafka_order.py`` finds in the topics, with the eyes of a reader that knows nothing of us."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

from confluent_kafka import Consumer, Message, TopicPartition
from tests.servers.kafka import QUIET

PATIENCE_S = 120.0
"""Without a row: a transaction may be committed late, not that late."""
EXAMPLES = 3


def copied(bootstrap: str, topic: str, partitions: int, each: int) -> list[str]:
    """In words, whatever is not every number below ``each`` in every partition, each once, in order."""
    found = [0] * partitions
    last = [-1] * partitions
    breaks: list[str] = []
    for message in messages(bootstrap, topic, partitions):
        partition, number = message.partition() or 0, int(message.value() or b"-1")
        found[partition] += 1
        if number != last[partition] + 1:
            breaks.append(f"{number:,} behind {last[partition]:,} in partition {partition}")
        last[partition] = number
    problems = [f"the copy breaks the order {len(breaks):,} times: {'; '.join(breaks[:EXAMPLES])}"] if breaks else []
    if found != [each] * partitions or last != [each - 1] * partitions:
        problems.append(f"the copy has {found} rows and ends with {last}")
    return problems


def counted(bootstrap: str, topic: str, partitions: int, each: int, keys: int) -> list[str]:
    """In words, whatever is not a rising count of a key, up to the right one."""
    right = {f"k{one}-{rest}": len(range(rest, each, keys)) for one in range(partitions) for rest in range(keys)}
    last: dict[str, int] = {}
    breaks: list[str] = []
    rows = 0
    for message in messages(bootstrap, topic, partitions):
        rows += 1
        key, count = str((message.key() or b"").decode()), int(message.value() or b"-1")
        if count <= last.get(key, 0):
            breaks.append(f"{count} behind {last[key]} of {key}")
        last[key] = count
    print(f"order: {rows:,} updates of {len(last):,} keys", flush=True)
    wrong = [key for key, count in right.items() if count and last.get(key) != count]
    problems = [f"counts break the order {len(breaks):,} times: {'; '.join(breaks[:EXAMPLES])}"] if breaks else []
    if wrong or len(last) > len(right):
        some = ", ".join(f"{key}: {last.get(key)} instead of {right[key]}" for key in wrong[:EXAMPLES])
        problems.append(f"{len(wrong):,} of {len(right):,} keys end with a wrong count: {some}")
    return problems


def messages(bootstrap: str, topic: str, partitions: int) -> Iterator[Message]:
    """All that is committed, each partition from its beginning to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            **QUIET,
            "group.id": f"order-{uuid.uuid4().hex}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    ended: set[int] = set()
    until_s = time.monotonic() + PATIENCE_S
    while len(ended) < partitions:
        if time.monotonic() > until_s:
            raise SystemExit(f"FAILED: {topic} is read to its end in the partitions {sorted(ended)} only")
        for message in consumer.consume(50_000, 0.2):
            if message.error() is not None:
                ended.add(message.partition() or 0)
            else:
                until_s = time.monotonic() + PATIENCE_S
                yield message
    consumer.close()
