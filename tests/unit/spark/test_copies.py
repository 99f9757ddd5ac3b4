"""A slot that Spark starts a second time is noticed; one that says the same thing twice is not taken for another."""

from __future__ import annotations

import msgspec
import pytest

from tidegate.model.ids import Attempt, SlotIndex
from tidegate.model.messages import SlotRegistered
from tidegate.spark.copies import started_again

FIRST = SlotRegistered(
    attempt=Attempt(4), slot=SlotIndex(1), address="ipc://one", pid=100, host="worker-a", versions={"python": "3.11"}
)


@pytest.mark.parametrize("other", [{"pid": 101}, {"host": "worker-b"}, {"address": "ipc://two"}])
def test_a_second_process_for_a_slot_ends_the_attempt_and_is_named(other: dict[str, object]) -> None:
    """T64: Spark retries a failed barrier stage by itself; the copy must neither join nor hide that the first one is gone."""
    second = msgspec.structs.replace(FIRST, **other)
    failure = started_again(FIRST, second)
    assert failure is not None
    assert failure.code == "SLOT_LOST"
    assert failure.retryable
    assert f"process {second.pid} on {second.host}" in failure.message


def test_the_first_process_and_its_repeated_messages_are_welcome() -> None:
    assert started_again(None, FIRST) is None
    assert started_again(FIRST, msgspec.structs.replace(FIRST)) is None
