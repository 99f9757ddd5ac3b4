"""The PostgreSQL sink against a real server: every row once, whatever happens between prepare and commit."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest
from tests.integration.connectors.postgres_sinks import (
    committer,
    numbers,
    prepared,
    rows,
    sink_to,
    upsert_to,
    writer,
    wrote,
)
from tests.servers.postgres import Server, postgres_server

from tidegate.connectors.legacy import Sink
from tidegate.connectors.postgres import ledger
from tidegate.connectors.postgres.names import PreparedTransaction, decode
from tidegate.model import types as t
from tidegate.model.errors import CorruptSnapshot, Unavailable
from tidegate.model.ids import Attempt
from tidegate.model.output_mode import OutputMode
from tidegate.model.types import Field

STRATEGIES = pytest.mark.parametrize("strategy", ["prepared", "staged"])


def visible(server: Server, url: str) -> list[Any]:
    return [n for (n,) in server.query(url, "SELECT n FROM out ORDER BY n")]


def table(server: Server, url: str) -> dict[str | None, int]:
    found = server.query(url, "SELECT k, n FROM out")
    assert len({k for k, _ in found}) == len(found), "a key stands in the table twice"
    return dict(found)


def transactions(server: Server, url: str) -> list[str]:
    found = server.query(url, "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() ORDER BY gid")
    return [gid for (gid,) in found]


def staged(server: Server, url: str, sink: Sink) -> int:
    name = committer(sink)._config.staging
    return server.query(url, f"SELECT count(*) FROM {name}")[0][0]


@STRATEGIES
def test_rows_are_visible_after_the_commit_and_not_before(postgres: Server, strategy: str) -> None:
    """T5."""
    url = postgres.database()
    sink = sink_to(url, commitStrategy=strategy)
    driver, to = committer(sink), writer(sink)
    to.write(numbers(1, 2))
    to.write(numbers(3))
    ready = prepared(to, 1)
    assert visible(postgres, url) == []
    driver.commit(ready)
    assert visible(postgres, url) == [1, 2, 3]
    assert prepared(to, 2) == (), "nothing was written: nothing is prepared"
    to.close()


@STRATEGIES
def test_a_commit_may_be_repeated_by_anybody(postgres: Server, strategy: str) -> None:
    """T1."""
    url = postgres.database()
    sink = sink_to(url, commitStrategy=strategy)
    driver = committer(sink)
    ready = wrote(sink, numbers(1, 2), 1)
    for each in (driver, driver, committer(sink)):
        each.commit(ready)
    assert visible(postgres, url) == [1, 2]


def test_commit_prepared_works_once_and_the_ledger_tells_committed_from_lost(postgres: Server) -> None:
    """The server itself refuses the second COMMIT PREPARED with 42704, in the same words as one that never existed."""
    url = postgres.database()
    sink = sink_to(url)
    driver = committer(sink)
    ready = wrote(sink, numbers(1), 1)
    transaction = decode(ready[0].payload)
    assert isinstance(transaction, PreparedTransaction)
    postgres.query(url, f"COMMIT PREPARED '{transaction.gid}'")
    with pytest.raises(psycopg.errors.UndefinedObject):
        postgres.query(url, f"COMMIT PREPARED '{transaction.gid}'")
    driver.commit(ready)
    assert visible(postgres, url) == [1]


def test_a_transaction_that_somebody_rolled_back_is_an_alarm_that_names_the_checkpoint(postgres: Server) -> None:
    url = postgres.database()
    sink = sink_to(url)
    driver = committer(sink)
    first, lost = wrote(sink, numbers(1), 6), wrote(sink, numbers(2, 3), 7, subtask=4)
    postgres.query(url, f"ROLLBACK PREPARED '{transactions(postgres, url)[1]}'")
    with pytest.raises(CorruptSnapshot, match=r"checkpoint 7 is lost: the 2 rows that subtask 4") as raised:
        driver.commit(first + lost)
    assert visible(postgres, url) == [1], "what is not lost is visible"
    statement = raised.value.hint.partition("accept the loss: ")[2]
    postgres.query(url, statement)
    driver.commit(first + lost)
    assert visible(postgres, url) == [1]


def test_staged_rows_that_somebody_deleted_are_an_alarm_that_names_the_checkpoint(postgres: Server) -> None:
    url = postgres.database()
    sink = upsert_to(url)
    driver = committer(sink)
    lost = wrote(sink, numbers(2, 3), 7)
    postgres.query(url, f"DELETE FROM {driver._config.staging} WHERE n = 3")
    with pytest.raises(CorruptSnapshot, match=r"checkpoint 7 is lost: 2 rows were staged .* and 1 are there"):
        driver.commit(lost)
    assert visible(postgres, url) == [], "none of a checkpoint, rather than a part of it"


@STRATEGIES
def test_committers_that_race_make_every_row_visible_once(postgres: Server, strategy: str) -> None:
    url = postgres.database()
    sink = sink_to(url, commitStrategy=strategy)
    drivers = [committer(sink) for _ in range(4)]
    ready = tuple(one for subtask in range(4) for one in wrote(sink, numbers(subtask), 1, subtask=subtask))
    failures: list[Exception] = []

    def commit(number: int) -> None:
        try:
            drivers[number].commit(ready)
        except Exception as failure:  # noqa: BLE001  the test shows it
            failures.append(failure)

    threads = [threading.Thread(target=commit, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []
    assert visible(postgres, url) == [0, 1, 2, 3]


@STRATEGIES
def test_a_late_zombie_commits_nothing_twice(postgres: Server, strategy: str) -> None:
    """T9: attempt 1 stands before its commit; attempt 2 commits for it, writes on and commits; then attempt 1 goes on."""
    url = postgres.database()
    sink = sink_to(url, commitStrategy=strategy)
    zombie = committer(sink)
    ready = wrote(sink, numbers(1, 2), 1)
    successor = committer(sink)
    successor.commit(ready)
    successor.sweep(Attempt(2), ready)
    successor.commit(wrote(sink, numbers(3), 2, attempt=2))
    zombie.commit(ready)
    zombie.sweep(Attempt(1), ())
    assert visible(postgres, url) == [1, 2, 3]


def test_a_late_zombie_does_not_bring_old_values_back(postgres: Server) -> None:
    url = postgres.database()
    sink = upsert_to(url)
    zombie = committer(sink)
    old = wrote(sink, rows(("a", 1)), 1)
    successor = committer(sink)
    successor.commit(old)
    successor.commit(wrote(sink, rows(("a", 2)), 2, attempt=2))
    zombie.commit(old)
    assert table(postgres, url) == {"a": 2}


@STRATEGIES
def test_the_sweep_removes_what_older_attempts_prepared_and_nothing_else(postgres: Server, strategy: str) -> None:
    """T54: kept committables, another pipeline's, another sink's and a newer attempt's rows stay."""
    url = postgres.database()
    mine = sink_to(url, commitStrategy=strategy)
    others = [
        sink_to(url, commitStrategy=strategy, pipeline="p11"),
        sink_to(url, commitStrategy=strategy, sink="sink-1"),
        sink_to(url, commitStrategy=strategy, pipeline="p1/sink-0", sink="1"),
    ]
    driver = committer(mine)
    foreign = [(committer(other), wrote(other, numbers(100 + n), 1)) for n, other in enumerate(others)]
    kept, dropped = wrote(mine, numbers(1), 1, subtask=0), wrote(mine, numbers(2), 1, subtask=1)
    newer = wrote(mine, numbers(3), 2, attempt=2)
    driver.sweep(Attempt(2), kept)
    for other, theirs in foreign:
        other.commit(theirs)
    driver.commit(kept + newer)
    assert visible(postgres, url) == [1, 3, 100, 101, 102]
    with pytest.raises(CorruptSnapshot, match="checkpoint 1 is lost"):
        driver.commit(dropped)
    assert transactions(postgres, url) == []


@STRATEGIES
def test_a_zombie_that_prepares_after_the_sweep_is_swept_by_the_next(postgres: Server, strategy: str) -> None:
    url = postgres.database()
    sink = sink_to(url, commitStrategy=strategy)
    driver = committer(sink)
    driver.sweep(Attempt(2), ())
    wrote(sink, numbers(1), 5)
    driver.sweep(Attempt(2), ())
    assert transactions(postgres, url) == [] and visible(postgres, url) == []
    if strategy == "staged":
        assert staged(postgres, url, sink) == 0


def test_a_zombie_in_an_open_transaction_does_not_stop_its_successor(postgres: Server) -> None:
    """It holds the entries of a unique index: its successor, which writes the same rows again, would wait for it."""
    url = postgres.database()
    postgres.query(url, "CREATE TABLE out (k text, n bigint PRIMARY KEY)")
    sink = sink_to(url, lockTimeout=5)
    driver, zombie = committer(sink), writer(sink)
    zombie.write(numbers(*range(20_000)))  # So many that the server has begun to insert them.
    driver.sweep(Attempt(2), ())
    driver.commit(wrote(sink, numbers(*range(20_000)), 1, attempt=2))
    assert len(visible(postgres, url)) == 20_000
    with pytest.raises(Unavailable):
        zombie.write(numbers(1))
        prepared(zombie, 1)
    zombie.close()


def test_a_lock_that_somebody_holds_is_an_error_in_time_and_no_hang(postgres: Server) -> None:
    url = postgres.database()
    sink = sink_to(url, lockTimeout=1)
    committer(sink)
    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE out IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(Unavailable, match="lock timeout") as raised:
            writer(sink).write(numbers(1))
    assert "lockTimeout" in raised.value.hint


def test_the_next_checkpoint_writes_the_same_keys_while_the_last_one_waits_for_its_commit(postgres: Server) -> None:
    """With rows locked from prepare to commit this would wait for ever when checkpoint 1 failed and is carried by 2."""
    url = postgres.database()
    sink = upsert_to(url, lockTimeout=2)
    driver, to = committer(sink), writer(sink)
    to.write(rows(("a", 1), ("b", 1)))
    first = prepared(to, 1)
    to.write(rows(("b", 2), ("c", 2)))
    second = prepared(to, 2)
    driver.commit(first + second)
    assert table(postgres, url) == {"a": 1, "b": 2, "c": 2}
    to.close()


def test_the_last_row_of_a_key_wins(postgres: Server) -> None:
    url = postgres.database()
    sink = upsert_to(url)
    driver, to = committer(sink), writer(sink)
    to.write(rows(("a", 1), ("b", 1), ("a", 2)))
    to.write(rows(("b", 3), (None, 3), ("c", 3), ("c", 4), (None, 5)))
    first = prepared(to, 1)
    to.write(rows(("c", None)))
    driver.commit(first)
    assert table(postgres, url) == {"a": 2, "b": 3, "c": 4, None: 5}
    driver.commit(first + prepared(to, 2))
    assert table(postgres, url) == {"a": 2, "b": 3, "c": None, None: 5}
    assert staged(postgres, url, sink) == 0
    to.close()


def test_a_result_of_keys_alone_is_inserted_once(postgres: Server) -> None:
    url = postgres.database()
    sink = sink_to(url, (Field("k", t.STRING, nullable=False),), OutputMode.UPDATE, keys="k")
    driver = committer(sink)
    frame = rows(("a", 0), ("b", 0)).select("k")
    driver.commit(wrote(sink, frame, 1) + wrote(sink, frame.head(1), 2))
    assert sorted(postgres.query(url, "SELECT k FROM out")) == [("a",), ("b",)]


def test_complete_mode_leaves_the_newest_result_alone_in_the_table(postgres: Server) -> None:
    url = postgres.database()
    sink = sink_to(url, mode=OutputMode.COMPLETE)
    driver = committer(sink)
    to = [writer(sink, subtask=subtask) for subtask in range(2)]
    to[0].write(rows(("a", 1)))
    to[1].write(rows(("b", 1)))
    first = prepared(to[0], 1, 0) + prepared(to[1], 1, 1)
    driver.commit(first)
    assert table(postgres, url) == {"a": 1, "b": 1}
    to[1].write(rows(("c", 2)))
    driver.commit(prepared(to[0], 2, 0) + prepared(to[1], 2, 1))
    driver.commit(first)
    assert table(postgres, url) == {"c": 2}
    driver.commit(prepared(to[0], 3, 0) + prepared(to[1], 3, 1))
    assert table(postgres, url) == {}, "an empty result is a result"
    for each in to:
        each.close()


@STRATEGIES
def test_committables_of_more_subtasks_than_there_are_now_are_committed(postgres: Server, strategy: str) -> None:
    """T46: scaled down from five to one with output pending."""
    url = postgres.database()
    sink = sink_to(url, commitStrategy=strategy)
    committer(sink)
    pending = tuple(one for n in range(5) for one in wrote(sink, numbers(n), 3, subtask=n))
    pending += wrote(sink, numbers(9), 4, subtask=0)
    after = committer(sink)
    after.commit(pending)
    after.sweep(Attempt(2), pending)
    after.commit(wrote(sink, numbers(10), 5, attempt=2))
    assert visible(postgres, url) == [0, 1, 2, 3, 4, 9, 10]


def test_rows_that_wait_in_the_table_of_another_result_are_committed_and_the_table_goes(postgres: Server) -> None:
    """The query got another column between prepare and commit."""
    url = postgres.database()
    before = upsert_to(url)
    old = committer(before)
    pending = wrote(before, rows(("a", 1)), 1)
    postgres.query(url, "ALTER TABLE out ADD COLUMN extra boolean")
    after = sink_to(url, (*before.schema, Field("extra", t.BOOLEAN)), OutputMode.UPDATE, keys="k")
    driver = committer(after)
    driver.sweep(Attempt(2), pending)
    driver.commit(pending)
    assert table(postgres, url) == {"a": 1}
    driver.sweep(Attempt(2), ())
    left = postgres.query(url, "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'tidegate_staged%'")
    assert left == [(driver._config.staging.name,)] and driver._config.staging != old._config.staging


def test_the_ledger_stays_small_and_forgets_no_checkpoint_that_may_be_restored(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "LEDGER_CHECKPOINTS", 3)
    url = postgres.database()
    mine, other = sink_to(url), sink_to(url, pipeline="p2")
    driver = committer(mine)
    committer(other).commit(wrote(other, numbers(0), 1))
    taken = [wrote(mine, numbers(checkpoint), checkpoint) for checkpoint in range(1, 7)]
    for one in taken:
        driver.commit(one)
        driver.sweep(Attempt(1), one)
    found = postgres.query(url, "SELECT pipeline, checkpoint FROM tidegate_ledger ORDER BY 1, 2")
    assert found == [("p1", 3), ("p1", 4), ("p1", 5), ("p1", 6), ("p2", 1)]
    for one in taken:
        driver.commit(one)
    assert visible(postgres, url) == [0, 1, 2, 3, 4, 5, 6]


def test_a_server_that_dies_between_prepare_and_commit_loses_and_doubles_nothing() -> None:
    """Both ways of waiting survive it, as does a commit whose answer was lost (T3)."""
    with postgres_server() as server:
        urls = [server.database(), server.database()]
        sinks = [sink_to(urls[0]), upsert_to(urls[1])]
        drivers = [committer(sink) for sink in sinks]
        done = [wrote(sink, numbers(1), 1) for sink in sinks]
        for driver, ready in zip(drivers, done, strict=True):
            driver.commit(ready)
        pending = [wrote(sink, numbers(2, 3), 2) for sink in sinks]
        open_writer = writer(sinks[0])
        open_writer.write(numbers(7))
        server.kill()
        with pytest.raises(Unavailable, match="cannot connect"):
            drivers[0].commit(pending[0])
        with pytest.raises(Unavailable):
            prepared(open_writer, 3)
        open_writer.close()
        server.start()
        for driver, ready, waiting in zip(drivers, done, pending, strict=True):
            driver.commit(ready + waiting)
            driver.commit(ready + waiting)
        assert [visible(server, url) for url in urls] == [[1, 2, 3], [1, 2, 3]]
        again = writer(sinks[0], attempt=2)
        again.write(numbers(4))
        first = prepared(again, 3)
        # A session that was cut while nothing was in it is replaced, unnoticed.
        server.query(
            urls[0], "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '%% a2 s0'"
        )
        again.write(numbers(5))
        drivers[0].commit(first + prepared(again, 4))
        again.close()
        assert visible(server, urls[0]) == [1, 2, 3, 4, 5]
