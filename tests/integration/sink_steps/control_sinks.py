"""A sink small enough to be right at a glance, and the same with one mistake each: the harness must find every one of them.

Rows are lines. Prepared ones stand in ``staged/<attempt>-<subtask>-<checkpoint>``, visible ones in ``visible/`` under the same name;
publishing is one rename.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

import polars as pl
from tests.integration.sink_steps.pipeline import sink_node

from tidegate.connectors.home import Home
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex
from tidegate.model.snapshot import Committable
from tidegate.plan.relational import Sink
from tidegate.ports.sink import SinkCommitter, SinkWriter
from tidegate.testing.stand_ins import scripted_sink


class Mistake(Enum):
    NONE = "none"
    APPENDS_AGAIN = "a commit that is repeated writes the rows again"
    VISIBLE_AT_PREPARE = "rows are visible when they are prepared, before the manifest"
    FORGETS = "a commit skips whatever is not of the newest checkpoint"
    SWEEPS_NEWER = "a sweep removes what newer attempts have prepared"
    NAMES_WITHOUT_ATTEMPT = "a successor prepares under the names of its predecessor"
    NOT_ATOMIC = "a commit writes row by row, and takes what it finds half written for done"


@dataclass(frozen=True)
class LineSinks:
    folder: Path
    mistake: Mistake = Mistake.NONE

    def writer(self, sink: Sink, home: Home, attempt: Attempt, subtask: SlotIndex) -> LineWriter:
        assert home.pipeline
        return LineWriter(self.folder, self.mistake, attempt, subtask)

    def committer(self, sink: Sink, home: Home) -> LineCommitter:
        return LineCommitter(self.folder, self.mistake)


class LineWriter(SinkWriter):
    def __init__(self, folder: Path, mistake: Mistake, attempt: Attempt, subtask: SlotIndex) -> None:
        self._folder = folder
        self._mistake = mistake
        self._attempt = attempt
        self._subtask = subtask
        self._rows: list[int] = []

    def write(self, rows: pl.DataFrame) -> None:
        self._rows += rows["id"].to_list()

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, ...]:
        if not self._rows:
            return ()
        attempt = 0 if self._mistake is Mistake.NAMES_WITHOUT_ATTEMPT else self._attempt
        name = f"{attempt}-{self._subtask}-{checkpoint}"
        early = self._mistake is Mistake.VISIBLE_AT_PREPARE
        put_lines(self._folder / ("visible" if early else "staged") / name, self._rows)
        self._rows = []
        return (name.encode(),)


@dataclass(frozen=True)
class LineCommitter(SinkCommitter):
    folder: Path
    mistake: Mistake

    def commit(self, committables: tuple[Committable, ...]) -> None:
        newest = max(one.checkpoint for one in committables)
        for one in sorted(committables, key=lambda c: (c.checkpoint, c.subtask)):
            if self.mistake is Mistake.FORGETS and one.checkpoint < newest:
                continue
            self._publish(one.payload.decode())

    def _publish(self, name: str) -> None:
        staged, visible = self.folder / "staged" / name, self.folder / "visible" / name
        visible.parent.mkdir(exist_ok=True)
        match self.mistake:
            case Mistake.VISIBLE_AT_PREPARE:
                return
            case Mistake.APPENDS_AGAIN:
                put_lines(visible, [int(line) for line in staged.read_text().split()])
            case Mistake.NOT_ATOMIC:
                if not visible.exists():
                    for line in staged.read_text().split():
                        put_lines(visible, [int(line)])
                staged.unlink(missing_ok=True)
            case _:
                if staged.exists():
                    staged.replace(visible)
                elif not visible.exists():
                    raise AssertionError(f"{name} is gone")

    def sweep(self, older_than: Attempt, keep: tuple[Committable, ...]) -> None:
        kept = {one.payload.decode() for one in keep}
        for staged in (self.folder / "staged").glob("*"):
            old = int(staged.name.split("-")[0]) < older_than
            if staged.name not in kept and (old or self.mistake is Mistake.SWEEPS_NEWER):
                staged.unlink(missing_ok=True)


def put_lines(path: Path, rows: list[int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(f"{row}\n" for row in rows)


@dataclass(frozen=True)
class LineTarget:
    folder: Path
    mistake: Mistake = Mistake.NONE

    @property
    def formats(self) -> LineSinks:
        return LineSinks(self.folder, self.mistake)

    def sink(self) -> Sink:
        bare = sink_node("noop", {})
        return replace(bare, spec=scripted_sink(bare.schema, format="lines"))

    def visible(self) -> list[int]:
        return [int(line) for path in (self.folder / "visible").glob("*") for line in path.read_text().split()]

    def leftovers(self) -> list[str]:
        return [path.name for path in (self.folder / "staged").glob("*")]
