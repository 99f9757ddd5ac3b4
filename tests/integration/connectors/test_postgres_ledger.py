"""What the ledger has forgotten, and what is missing though it was prepared: against a real server."""

from __future__ import annotations

from typing import Any

import pytest
from tests.integration.connectors.postgres_sinks import (
    committer,
    numbers,
    prepared,
    sink_to,
    upsert_to,
    writer,
    wrote,
)
from tests.servers.postgres import Server

from tidegate.connectors.postgres import ledger
from tidegate.connectors.postgres.config import parse_sink
from tidegate.model.errors import CorruptSnapshot
from tidegate.model.ids import Attempt
from tidegate.model.output_mode import OutputMode


def visible(server: Server, url: str) -> list[Any]:
    return [n for (n,) in server.query(url, "SELECT n FROM out ORDER BY n")]


@pytest.mark.parametrize("mode", ["prepared", "staged", "complete", "an empty result"])
def test_what_the_ledger_has_forgotten_is_done(postgres: Server, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """B4: a zombie commits again what was trimmed long ago: no alarm, no row, and no result is emptied by an older one."""
    monkeypatch.setattr(ledger, "LEDGER_CHECKPOINTS", 3)
    url = postgres.database()
    options = {} if mode == "prepared" else {"commitStrategy": "staged"}
    whole = mode in ("complete", "an empty result")
    sink = sink_to(url, mode=OutputMode.COMPLETE) if whole else sink_to(url, **options)
    driver = committer(sink)
    first = prepared(writer(sink), 1) if mode == "an empty result" else wrote(sink, numbers(1), 1)
    driver.commit(first)
    for checkpoint in range(2, 7):
        driver.commit(wrote(sink, numbers(checkpoint), checkpoint))
    driver.sweep(Attempt(2), ())
    before = visible(postgres, url)
    known = postgres.query(url, "SELECT checkpoint FROM tidegate_ledger ORDER BY 1")
    assert before == ([6] if whole else [1, 2, 3, 4, 5, 6]) and known == [(3,), (4,), (5,), (6,)]
    driver.commit(first)
    assert visible(postgres, url) == before
    assert postgres.query(url, "SELECT checkpoint FROM tidegate_ledger ORDER BY 1") == known


@pytest.mark.parametrize("gone", ["rows", "table"])
def test_lost_staged_rows_are_an_alarm_that_says_how_to_go_on(postgres: Server, gone: str) -> None:
    url = postgres.database()
    sink = upsert_to(url)
    driver = committer(sink)
    lost = wrote(sink, numbers(1), 7) + wrote(sink, numbers(2), 7, subtask=1)
    staging = parse_sink(sink).staging
    postgres.query(url, f"DELETE FROM {staging}" if gone == "rows" else f"DROP TABLE {staging}")
    with pytest.raises(CorruptSnapshot, match="output of checkpoint 7 is lost: 2 rows were staged") as alarm:
        driver.commit(lost)
    assert str(staging) in alarm.value.message and "accept the loss" in alarm.value.hint
    postgres.query(url, alarm.value.hint[alarm.value.hint.index("INSERT") :])
    driver.commit(lost)
    assert visible(postgres, url) == []
