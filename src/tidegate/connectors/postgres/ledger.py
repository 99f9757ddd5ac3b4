"""What the ledger says of a sink's output: which is committed, and the newest of it. Rows far below the newest are removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

from psycopg import sql

from tidegate.connectors.postgres.names import PreparedTransaction, SinkNames, StagedRows, Table
from tidegate.connectors.postgres.session import Connection
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex
from tidegate.model.snapshot import Committable, Published

LEDGER_CHECKPOINTS = 2_000
"""How far back the ledger remembers: twice as far as checkpoints can be retained, so that each of them can be committed again."""

_FORGOTTEN: LiteralString = (
    "(SELECT max(checkpoint) FROM {0} WHERE pipeline = %(pipeline)s AND sink = %(sink)s) - %(kept)s"
)
"""Checkpoints below this have been committed: numbers only grow, and output becomes visible in their order."""


def newest(connection: Connection, ledger: Table, names: SinkNames) -> Published | None:
    found = connection.execute(
        sql.SQL(
            "SELECT attempt, checkpoint FROM {} WHERE pipeline = %(pipeline)s AND sink = %(sink)s"
            " ORDER BY attempt DESC, checkpoint DESC LIMIT 1"
        ).format(ledger.sql),
        _whose(names),
    ).fetchone()
    return None if found is None else Published(Attempt(found[0]), CheckpointId(found[1]))


def is_committed(connection: Connection, names: SinkNames, one: Committable, prepared: PreparedTransaction) -> bool:
    found = connection.execute(
        sql.SQL(
            "SELECT 1 FROM {0} WHERE pipeline = %(pipeline)s AND sink = %(sink)s AND checkpoint = %(checkpoint)s"
            " AND attempt = %(attempt)s AND subtask = %(subtask)s UNION ALL SELECT 1 WHERE %(checkpoint)s < "
            + _FORGOTTEN
        ).format(prepared.ledger.sql),
        {
            **_whose(names),
            "checkpoint": one.checkpoint,
            "attempt": prepared.attempt,
            "subtask": one.subtask,
        },
    )
    return found.fetchone() is not None


def enter(
    connection: Connection, names: SinkNames, staged: Sequence[tuple[Committable, StagedRows]]
) -> set[tuple[Attempt, SlotIndex]]:
    """Writes the ledger; returns what it did not know. A second committer waits here for the first, and then finds its rows."""
    found = connection.execute(
        sql.SQL(
            "INSERT INTO {0} (pipeline, sink, checkpoint, attempt, subtask, rows)"
            " SELECT %(pipeline)s, %(sink)s, one.* FROM unnest(%(checkpoints)s::bigint[], %(attempts)s::bigint[],"
            " %(subtasks)s::bigint[], %(rows)s::bigint[]) AS one (checkpoint, attempt, subtask, rows)"
            " WHERE one.checkpoint >= coalesce(" + _FORGOTTEN + ", 0)"
            " ON CONFLICT DO NOTHING RETURNING attempt, subtask"
        ).format(staged[0][1].ledger.sql),
        {
            **_whose(names),
            "checkpoints": [one.checkpoint for one, _ in staged],
            "attempts": [rows.attempt for _, rows in staged],
            "subtasks": [one.subtask for one, _ in staged],
            "rows": [rows.rows for _, rows in staged],
        },
    )
    return {(Attempt(attempt), SlotIndex(subtask)) for attempt, subtask in found}


def trim(connection: Connection, ledger: Table, names: SinkNames) -> None:
    connection.execute(
        sql.SQL(
            "DELETE FROM {0} WHERE pipeline = %(pipeline)s AND sink = %(sink)s AND checkpoint < " + _FORGOTTEN
        ).format(ledger.sql),
        _whose(names),
    )


def ways_out(cause: str, names: SinkNames, lost: Sequence[tuple[Committable, PreparedTransaction | StagedRows]]) -> str:
    """For output that is neither waiting nor committed."""
    entries = ((names.pipeline, names.sink, one.checkpoint, rows.attempt, one.subtask, rows.rows) for one, rows in lost)
    values = ", ".join(
        "(" + ", ".join(f"'{value}'" if isinstance(value, str) else str(value) for value in entry) + ")"
        for entry in entries
    )
    return (
        f"{cause}, or the database is a copy from before. Bring it back; or accept the loss: "
        f"INSERT INTO {lost[0][1].ledger} (pipeline, sink, checkpoint, attempt, subtask, rows) VALUES {values}"
    )


def _whose(names: SinkNames) -> dict[str, object]:
    return {"pipeline": names.pipeline, "sink": names.sink, "kept": LEDGER_CHECKPOINTS}
