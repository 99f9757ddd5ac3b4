"""A pytest plugin: plants a mutant before any test is collected. ``python -m pytest -p tidegate.testing.mutants.infected …``, the mutant's
name in ``TIDEGATE_MUTANT``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tidegate.testing.mutants.catalogue import BY_NAME
from tidegate.testing.mutants.hunting import MUTANT
from tidegate.testing.mutants.planting import Planting

if TYPE_CHECKING:
    import pytest

REACHED = "planted code ran"
_PLANTING = Planting()


def pytest_configure(config: pytest.Config) -> None:
    BY_NAME[os.environ[MUTANT]].plant(_PLANTING)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(f"{REACHED} {_PLANTING.reached} times")
