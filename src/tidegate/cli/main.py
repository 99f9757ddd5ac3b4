"""``tidegate nexmark q7``, ``tidegate checkpoints /data/checkpoints/q1``, ``tidegate version``.

Exit codes: 0 done; 1 the result differs from the oracle; 2 wrong use; 3 a query or a location failed; 130 interrupted.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tidegate.model.errors import TidegateError

DIFFERENT, FAILED, INTERRUPTED = 1, 3, 130

app = typer.Typer(
    name="tidegate",
    help="Run PySpark streaming queries continuously, with exactly-once results.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command()
def version() -> None:
    """Print the versions of Tidegate, PySpark, Polars, PyArrow and Python."""
    from tidegate.cli.versions import version_lines

    for line in version_lines():
        typer.echo(line)


@app.command()
def nexmark(
    query: Annotated[str, typer.Argument(help="q0 … q22, or 'list' for what they ask.", show_default=False)],
    events: Annotated[int, typer.Option(min=1, help="Events of all three tables together.")] = 1_000_000,
    parallelism: Annotated[int, typer.Option(min=0, help="Slots; 0: one per core.")] = 0,
    seed: Annotated[int, typer.Option(help="Another stream of the same kind.")] = 0,
    check: Annotated[bool, typer.Option(help="Compare the result with Spark batch over the same events.")] = False,
    kill: Annotated[int, typer.Option(min=0, help="Kill -9 a slot so many times while the query runs.")] = 0,
    checkpoint: Annotated[str, typer.Option(help="How often a checkpoint is taken.")] = "1 second",
    quiet: Annotated[bool, typer.Option(help="No progress, only the result.")] = False,
) -> None:
    """Run a Nexmark query on a local Spark session and print its throughput.

    For example: tidegate nexmark q7 --events 10_000_000 --check
    """
    from tidegate.cli.nexmark import list_queries, run_query

    if query.lower() == "list":
        list_queries()
        return
    if not run_query(
        query,
        events=events,
        parallelism=parallelism,
        seed=seed,
        check=check,
        kills=kill,
        checkpoint=checkpoint,
        quiet=quiet,
    ):
        raise typer.Exit(DIFFERENT)


@app.command()
def checkpoints(
    location: Annotated[str, typer.Argument(help="The checkpointLocation of a query.", show_default=False)],
    last: Annotated[int, typer.Option(min=1, help="How many of the newest.")] = 20,
    json: Annotated[bool, typer.Option("--json", help="All that is known, one JSON object per line.")] = False,
    storage: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="How the store is reached, as option storage.NAME of the query; repeatable."
        ),
    ] = None,
) -> None:
    """Show the history of a query's checkpoints, failed ones too. The query may run meanwhile."""
    from tidegate.cli.checkpoints import show_checkpoints

    show_checkpoints(location, last, storage or (), as_json=json)


def main() -> None:
    """The console script."""
    try:
        app(standalone_mode=False)
    except TidegateError as error:
        _complain(str(error))
        sys.exit(FAILED)
    except typer.Exit as end:
        sys.exit(end.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        _complain("interrupted")
        sys.exit(INTERRUPTED)
    except Exception as error:
        # Wrong use, as the command-line parser tells it; whatever else it is, is ours.
        if hasattr(error, "format_message") and hasattr(error, "exit_code"):
            error.show()  # pyright: ignore[reportAttributeAccessIssue]
            sys.exit(error.exit_code)  # pyright: ignore[reportAttributeAccessIssue]
        raise


def _complain(text: str) -> None:
    typer.echo(f"tidegate: {text}", err=True)
