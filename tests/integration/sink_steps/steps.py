"""The steps of the protocol at which a process can be struck, and the hand that strikes.

A step is never missed silently: whoever is struck writes down first where it stands, and a case without that line has failed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import FrameType

CONNECTORS = f"{os.sep}tidegate{os.sep}connectors{os.sep}"
"""Lines of files below it count as steps of a connector."""


class Step(Enum):
    """In the order in which one checkpoint passes them; the value is what the documentation calls them."""

    BEFORE_PREPARE = "before prepare"
    IN_PREPARE = "in the middle of prepare"
    AFTER_PREPARE = "after prepare"
    BEFORE_MANIFEST = "before the manifest"
    AFTER_MANIFEST = "after the manifest"
    BEFORE_LOOK = "before the look"
    BEFORE_COMMITS = "before the commits"
    IN_COMMITS = "in the middle of the commits"
    BEFORE_MARKER = "before the marker"
    AFTER_MARKER = "after the marker"
    BEFORE_SWEEP = "before the sweep"
    IN_SWEEP = "in the middle of the sweep"


ANY = 0
"""As a checkpoint: the first one that comes to the step."""


@dataclass(frozen=True)
class Doom:
    """Strikes once. ``line``: inside a step, before the n-th line of the connector that runs there."""

    step: Step
    strike: signal.Signals = signal.SIGKILL
    checkpoint: int = 2
    line: int = 0

    def means(self, step: Step, checkpoint: int) -> bool:
        return step is self.step and self.checkpoint in (ANY, checkpoint)


class Diary:
    """What a process did, line by line; a line is one write, so kill -9 tears none."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def note(self, what: str, **details: object) -> None:
        os.write(self._file, (json.dumps({"what": what, **details}) + "\n").encode())


@dataclass(frozen=True)
class Entry:
    """A line of a diary."""

    what: str
    details: dict[str, object]

    def number(self, name: str) -> int:
        value = self.details[name]
        assert isinstance(value, int)
        return value


def read_diary(path: Path) -> list[Entry]:
    entries = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [Entry(entry.pop("what"), entry) for entry in entries]


class Watch:
    """Told of every step by the pipeline; carries out the doom of its process."""

    def __init__(self, doom: Doom | None, diary: Diary) -> None:
        self._doom = doom
        self._diary = diary
        self._lines = 0

    def reached(self, step: Step, checkpoint: int) -> None:
        if self._doom is not None and self._doom.means(step, checkpoint):
            self._strike(self._doom, f"checkpoint {checkpoint}")

    @contextmanager
    def inside(self, step: Step, checkpoint: int) -> Iterator[None]:
        """Counts the lines of connectors that run, and strikes before the chosen one."""
        doom = self._doom if self._doom is not None and self._doom.means(step, checkpoint) else None
        self._lines = 0

        def trace(frame: FrameType, event: str, _: object):
            if CONNECTORS not in frame.f_code.co_filename and "control_sinks" not in frame.f_code.co_filename:
                return None
            if event == "line":
                self._lines += 1
                if doom is not None and self._lines == doom.line:
                    sys.settrace(None)
                    place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                    self._strike(doom, f"checkpoint {checkpoint}, line {doom.line}: {place}")
                    return None
            return trace

        sys.settrace(trace)
        try:
            yield
        finally:
            sys.settrace(None)
            self._diary.note("lines", step=step.name, checkpoint=checkpoint, lines=self._lines)

    def _strike(self, doom: Doom, where: str) -> None:
        self._doom = None
        self._diary.note("struck", step=doom.step.name, where=where)
        os.kill(os.getpid(), doom.strike)
