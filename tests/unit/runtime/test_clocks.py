"""Every process measures time by its own clock: no moment travels, so no clock has to agree with another."""

from __future__ import annotations

import dataclasses
from typing import get_args

import msgspec
import pytest

from tidegate.model.elements import Barrier, CancelCheckpoint
from tidegate.model.messages import SlotMessage

EVENT_TIMES = ("watermark_us",)
"""Moments of the rows, by no clock."""
MOMENTS = ("_ms", "_us", "_ns", "_s", "_at", "time", "timestamp", "deadline")


@pytest.mark.parametrize("element", [Barrier, CancelCheckpoint])
def test_a_barrier_carries_no_moment(element: type) -> None:
    """T65: an age or a timeout computed from another machine's clock would be wrong by the difference of the two clocks."""
    assert [one.name for one in dataclasses.fields(element) if one.name.endswith(MOMENTS)] == []


@pytest.mark.parametrize("message", get_args(SlotMessage), ids=lambda message: message.__name__)
def test_no_order_to_a_slot_carries_a_moment(message: type[msgspec.Struct]) -> None:
    """T65: what is to happen by when is computed where it happens."""
    names = [one.name for one in msgspec.structs.fields(message)]
    assert [name for name in names if name.endswith(MOMENTS) and name not in EVENT_TIMES] == []
