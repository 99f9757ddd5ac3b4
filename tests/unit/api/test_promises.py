"""What a query says about its output."""

from __future__ import annotations

import pytest

from tidegate.api.reports import promised
from tidegate.model.config import CheckpointMode


@pytest.mark.parametrize("guarantee", ["exactly_once", "idempotent", "at_least_once"])
def test_no_sink_promises_more_than_the_checkpoints_allow(guarantee: str) -> None:
    """T52: in at-least-once mode rows count twice in the state already, before any sink sees them."""
    assert promised(guarantee, CheckpointMode.AT_LEAST_ONCE) == "at_least_once"
    assert promised(guarantee, CheckpointMode.EXACTLY_ONCE) == guarantee
