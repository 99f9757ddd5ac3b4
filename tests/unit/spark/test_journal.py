from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tidegate.checkpoint.events import SinksSwept
from tidegate.model.ids import Attempt
from tidegate.spark.history import HistoryKeeper
from tidegate.spark.journal import Journal
from tidegate.spark.status import JobStatus
from tidegate.storage.local import LocalBlobStore


def test_a_sink_that_cannot_clean_up_is_named_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An abort() of the user's that raises stops nothing: without this nobody would ever hear of it."""
    journal = Journal(JobStatus(), HistoryKeeper(LocalBlobStore(tmp_path), "q"))
    with caplog.at_level(logging.WARNING, "tidegate.driver"):
        journal.on_event(SinksSwept(0, Attempt(3)), {})
        assert caplog.text == ""
        journal.on_event(SinksSwept(0, Attempt(3), ("sink-0: UserCodeFailed: no",)), {})
    assert "attempt 3" in caplog.text and "sink-0: UserCodeFailed: no" in caplog.text
