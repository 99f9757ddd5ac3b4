"""Tries sinks: opens what they write to, and does to each what the scenarios say."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from itertools import count
from pathlib import Path

from tests.integration.sink_steps.cases import Case, Setup
from tests.integration.sink_steps.processes import Nursery
from tests.integration.sink_steps.scenarios import Profile, Scenario, profile
from tests.integration.sink_steps.sinks import ADAPTERS, Adapter, MakeTarget

MEMORY = Path("/dev/shm")


@contextmanager
def scratch() -> Iterator[Path]:
    """In memory where there is such a place: a process that is killed loses nothing it has written, synced to a disk or not."""
    folder = Path(tempfile.mkdtemp(prefix="tidegate-steps-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Tried:
    """One sink. What its cases share is started once."""

    def __init__(self, adapter: Adapter, make: MakeTarget, nursery: Nursery, folder: Path) -> None:
        self._make = make
        self._nursery = nursery
        self._folder = folder
        self._numbers = count(1)
        nursery.load(*adapter.modules)

    @cached_property
    def profile(self) -> Profile:
        return profile(self.case)

    def case(self) -> Case:
        folder = self._folder / f"case-{next(self._numbers)}"
        target = folder / "target"
        target.mkdir(parents=True)
        return Case(Setup(self._nursery, folder, self._make(target)))

    def suffer(self, scenario: Scenario) -> int:
        """How many cases passed: all of them, or the first that did not raises."""
        trials = list(scenario.trials(self.profile))
        for trial in trials:
            trial(self.case())
        return len(trials)


class Trying:
    """All sinks, each opened when it is asked for the first time and kept to the end."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._tried: dict[str, Tried] = {}

    def __enter__(self) -> Trying:
        self._folder = self._stack.enter_context(scratch())
        self._nursery = self._stack.enter_context(Nursery())
        return self

    def __exit__(self, *failure: object) -> None:
        self._stack.close()

    def sink(self, name: str) -> Tried:
        if name not in self._tried:
            adapter, folder = ADAPTERS[name], self._folder / name
            folder.mkdir()
            make = self._stack.enter_context(adapter.open(folder))
            self._tried[name] = Tried(adapter, make, self._nursery, folder)
        return self._tried[name]
