"""``tidegate nexmark``: one query on a local session, its throughput, and whether the answer is right."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.table import Table

from tidegate.nexmark import QUERIES, Outcome, RunSettings, find_query, run
from tidegate.nexmark.tables import Events
from tidegate.spark.session import local_session


def list_queries() -> None:
    table = Table("query", "asks for", "needs", "mode")
    for query in QUERIES:
        table.add_row(query.name, query.title, query.needs, query.mode)
    Console(soft_wrap=True).print(table)


def run_query(
    name: str,
    *,
    events: int,
    parallelism: int,
    seed: int,
    check: bool,
    kills: int,
    checkpoint: str,
    quiet: bool,
) -> bool:
    """Whether the result is right, as far as it was asked for."""
    query = find_query(name)
    session = local_session("tidegate nexmark", cores=parallelism or "*", spark__sql__shuffle__partitions="2")
    settings = RunSettings(
        parallelism=parallelism,
        check=check,
        kills=kills,
        checkpoint=checkpoint,
        progress="off" if quiet else "live",
    )
    try:
        outcome = run(session, query, Events(events, seed), settings)
    finally:
        session.stop()
    for line in report(outcome):
        typer.echo(line)
    return not outcome.difference


def report(outcome: Outcome) -> list[str]:
    """What is printed at the end."""
    rows = f"{outcome.rows:,} {'changes' if outcome.query.mode == 'update' and outcome.difference is None else 'rows'}"
    lines = [
        f"{outcome.query.name} ({outcome.query.title}): {outcome.events:,} events in {outcome.seconds:.1f} s, "
        f"{outcome.events_per_second:,.0f} events/s, {rows}",
        f"{outcome.checkpoints} checkpoints, {outcome.restarts} restarts",
    ]
    if outcome.difference is not None:
        lines.append(
            f"NOT the same as Spark: {outcome.difference}" if outcome.difference else "the same as Spark batch"
        )
    return lines
