"""Staged rows of one checkpoint into the table: one transaction, with the ledger as its fence."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import psycopg
from psycopg import sql

from tidegate.connectors.postgres import ledger
from tidegate.connectors.postgres.names import SinkNames, StagedRows, Table
from tidegate.connectors.postgres.session import Connection
from tidegate.connectors.postgres.target import PART_COLUMNS
from tidegate.model.errors import CorruptSnapshot
from tidegate.model.snapshot import Committable

_PARTS = sql.SQL("({}) IN (SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]))").format(
    sql.SQL(", ").join(map(sql.Identifier, PART_COLUMNS[:3]))
)


def merge(connection: Connection, names: SinkNames, staged: Sequence[tuple[Committable, StagedRows]]) -> None:
    """All of one checkpoint, visible at once. What the ledger knows is left alone: whoever comes second, at the same time or a week
    later, changes nothing."""
    with connection.transaction():
        new = ledger.enter(connection, names, staged)
        waiting = [(one, rows) for one, rows in staged if (rows.attempt, one.subtask) in new]
        for _, group in groupby(waiting, key=lambda pair: _shape(pair[1])):
            _move(connection, names, list(group))


def parts_of(staged: Sequence[tuple[Committable, StagedRows]]) -> tuple[list[int], list[int], list[int]]:
    """Parameters that pick their rows in the staging table."""
    return (
        [rows.attempt for _, rows in staged],
        [one.subtask for one, _ in staged],
        [rows.part for _, rows in staged],
    )


def _shape(rows: StagedRows) -> tuple[Table, Table, tuple[str, ...], tuple[str, ...], bool]:
    return rows.staging, rows.table, rows.columns, rows.keys, rows.whole


def _move(connection: Connection, names: SinkNames, staged: Sequence[tuple[Committable, StagedRows]]) -> None:
    rows = staged[0][1]
    parts = parts_of(staged)
    if rows.whole:
        connection.execute(sql.SQL("DELETE FROM {}").format(rows.table.sql))
    try:
        connection.execute(_insert(rows), parts)
        moved = connection.execute(sql.SQL("DELETE FROM {} WHERE {}").format(rows.staging.sql, _PARTS), parts).rowcount
    except psycopg.errors.UndefinedTable as error:
        if rows.staging.name not in str(error):
            raise
        raise _lost(names, staged, f"there is no table {rows.staging}") from error
    if moved != sum(each.rows for _, each in staged):
        raise _lost(names, staged, f"{moved} are there")


def _lost(names: SinkNames, staged: Sequence[tuple[Committable, StagedRows]], found: str) -> CorruptSnapshot:
    rows = staged[0][1]
    expected = sum(each.rows for _, each in staged)
    return CorruptSnapshot(
        f"output of checkpoint {staged[0][0].checkpoint} is lost: {expected} rows were staged for {rows.table} in "
        f"{rows.staging}, and {found}",
        hint=ledger.ways_out(f"somebody deleted them from {rows.staging}", names, staged),
    )


def _insert(rows: StagedRows) -> sql.Composed:
    columns = sql.SQL(", ").join(map(sql.Identifier, rows.columns))
    if not rows.keys:
        return sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} WHERE {}").format(
            rows.table.sql, columns, columns, rows.staging.sql, _PARTS
        )
    keys = sql.SQL(", ").join(map(sql.Identifier, rows.keys))
    others = [name for name in rows.columns if name not in rows.keys]
    change = sql.SQL("DO NOTHING")
    if others:
        assignments = (sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in others)
        change = sql.SQL("DO UPDATE SET {}").format(sql.SQL(", ").join(assignments))
    # The last row of a key wins. In the order of the keys, so that two writers of one table lock its rows in the same order.
    newest = sql.SQL("{} DESC, {} DESC").format(sql.Identifier(PART_COLUMNS[1]), sql.Identifier(PART_COLUMNS[3]))
    return sql.SQL(
        "INSERT INTO {} ({}) SELECT DISTINCT ON ({}) {} FROM {} WHERE {} ORDER BY {}, {} ON CONFLICT ({}) {}"
    ).format(rows.table.sql, columns, keys, columns, rows.staging.sql, _PARTS, keys, newest, keys, change)
