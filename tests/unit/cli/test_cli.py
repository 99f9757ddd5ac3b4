"""The command line: what it prints, and with which code it ends."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

import tidegate
from tidegate.cli.main import app
from tidegate.cli.nexmark import report
from tidegate.nexmark import Outcome, find_query

runner = CliRunner()


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-c", "from tidegate.cli.main import main; main()", *arguments]
    return subprocess.run(call, capture_output=True, text=True, timeout=120, check=False)


def test_version_names_what_a_bug_report_needs() -> None:
    found = runner.invoke(app, ["version"])
    assert found.exit_code == 0 and f"tidegate {tidegate.__version__}" in found.output and "pyspark 4" in found.output


def test_help_names_every_command() -> None:
    found = runner.invoke(app, ["--help"])
    assert all(name in found.output for name in ("nexmark", "checkpoints", "version"))


def test_the_queries_are_listed() -> None:
    found = runner.invoke(app, ["nexmark", "list"])
    assert found.exit_code == 0 and "q22" in found.output and "hot items" in found.output


def test_a_wrong_option_is_wrong_use() -> None:
    assert runner.invoke(app, ["nexmark", "q0", "--events", "none"]).exit_code == 2
    assert runner.invoke(app, ["nexmark", "q0", "--events", "0"]).exit_code == 2


def test_failures_are_one_line_with_the_way_out_and_have_a_code_of_their_own(tmp_path) -> None:
    missing = command("checkpoints", str(tmp_path / "nowhere"))
    assert missing.returncode == 3 and missing.stderr.startswith("tidegate: ") and "Traceback" not in missing.stderr
    unknown = command("nexmark", "q99")
    assert unknown.returncode == 3 and "q0 to q22" in unknown.stderr


def test_wrong_use_of_the_command_says_what_is_wrong() -> None:
    found = command("nexmark", "q0", "--event", "5")
    assert found.returncode == 2 and "--events" in found.stderr


@pytest.mark.parametrize(
    ("difference", "last"),
    [(None, "2 checkpoints, 1 restarts"), ("", "the same as Spark batch"), ("3 rows", "NOT the same as Spark: 3 rows")],
)
def test_the_report_says_how_fast_and_whether_it_is_right(difference: str | None, last: str) -> None:
    outcome = Outcome(
        query=find_query("7"), events=10_000_000, seconds=4.0, rows=5, checkpoints=2, restarts=1, difference=difference
    )
    first, *_, end = report(outcome)
    assert "10,000,000 events in 4.0 s, 2,500,000 events/s, 5 rows" in first and end == last
