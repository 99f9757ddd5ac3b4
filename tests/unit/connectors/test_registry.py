"""Formats by their names: ours, and those that other packages bring."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.connectors.registry import SINKS, parse_sink, sink_kind
from tidegate.model.errors import InvalidQuery
from tidegate.model.types import LONG, Field
from tidegate.ports.spec import ConnectorRequest, SparkJobs

SCHEMA = (Field("n", LONG),)
LINES = """
from dataclasses import dataclass

from tidegate.ports.kinds import Text
from tidegate.ports.options import option
from tidegate.ports.spec import Place, SinkSpec


@dataclass(frozen=True, kw_only=True)
class Lines(SinkSpec):
    folder: str = option("folder", Text(harmless=True), doc="where lines go")

    @property
    def place(self):
        return Place(self.folder)

    def writer(self, context):
        raise NotImplementedError

    def committer(self, context):
        raise NotImplementedError


SINK = Lines
"""


@pytest.fixture
def lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package that somebody else has written, installed."""
    (tmp_path / "their_lines.py").write_text(LINES)
    info = tmp_path / "their_lines-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-lines\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tidegate.connectors]\nlines = their_lines\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("their_lines", None)


def test_a_format_of_another_package_is_found_by_its_entry_point(lines: None) -> None:
    spec = parse_sink(ConnectorRequest(format="Lines", options={"folder": "/out"}, schema=SCHEMA))
    assert (spec.place, spec.guarantee, spec.shown) == ("/out", "exactly_once", (("folder", "/out"),))
    with pytest.raises(InvalidQuery, match="the lines sink has no option 'fodler'") as caught:
        parse_sink(ConnectorRequest(format="lines", options={"folder": "/out", "fodler": "x"}, schema=SCHEMA))
    assert caught.value.hint == "did you mean 'folder'?"


def test_without_it_the_name_is_unknown() -> None:
    with pytest.raises(InvalidQuery, match="there is no sink called 'lines'"):
        parse_sink(ConnectorRequest(format="lines", options={}, schema=SCHEMA))


def test_what_others_must_know_of_a_sink_before_it_runs_it_says_itself() -> None:
    kinds = {form: sink_kind(form) for form in SINKS}
    temporary = {form for form, kind in kinds.items() if kind is not None and not kind.OUTLIVES_QUERY}
    assert temporary == {"memory", "console", "noop", "foreach", "foreachbatch"}
    jobs = {form: kind.SPARK_JOBS for form, kind in kinds.items() if kind and kind.SPARK_JOBS is not SparkJobs.NEVER}
    assert jobs == {"memory": SparkJobs.PERHAPS, "foreachbatch": SparkJobs.ALWAYS}
