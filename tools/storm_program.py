"""How a storm of `make chaos` begins and ends as a program: its options, its folder, what it says at last."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

FREEZE_S = 5.0
NEVER = float("inf")

Weather: TypeAlias = Mapping[str, float]
"""Seconds between two events, by kind."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Something that happens again and again: ``--{option}-every`` says how often."""

    name: str
    option: str
    every_s: float
    what: str


SLOT_KILLS = Kind("slot kills", "slot", 8.0, "kill -9 of a slot")
DRIVER_KILLS = Kind("driver kills", "driver", 30.0, "kill -9 of the driver")
FREEZES = Kind("freezes", "freeze", 13.0, f"SIGSTOP of a process, for {FREEZE_S:.0f} s")
PROCESS_KINDS = (SLOT_KILLS, DRIVER_KILLS, FREEZES)


def arguments(about: str | None, seconds: float, kinds: tuple[Kind, ...]) -> argparse.ArgumentParser:
    """The options that all storms have."""
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=seconds)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    for kind in kinds:
        parser.add_argument(f"--{kind.option}-every", type=float, default=kind.every_s, help=f"seconds: {kind.what}")
    return parser


def weather_of(options: argparse.Namespace, kinds: tuple[Kind, ...]) -> Weather:
    return {kind.name: getattr(options, f"{kind.option}_every") for kind in kinds}


def in_a_folder(run: Callable[[Path], int]) -> int:
    """The exit code of ``run``. Its folder is kept when something went wrong. Whatever is told to end, ends its children first."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="tidegate-storm-"))
    code = 1
    try:
        code = run(folder)
    except KeyboardInterrupt:
        print("storm: interrupted; all its processes are ended", flush=True)
        code = 130
    finally:
        if code in (0, 130):
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"storm: everything is kept in {folder}", flush=True)
    return code


def put_work(folder: Path, work: dict) -> None:
    """What the drivers are to do."""
    (folder / "work.json").write_text(json.dumps(work))


def result_of(folder: Path) -> dict:
    return json.loads((folder / "result.json").read_text())


def verdict(result: dict, after: str, harm: str | None = None) -> int:
    """The last line, and the exit code. ``harm``: damage that was done on purpose and must be seen."""
    for line in result["problems"]:
        print(f"storm: {line}")
    seen = bool(result["problems"])
    if harm is None:
        right = f"OK: {result['rows']:,} rows equal Spark batch's"
        print(f"{'FAILED: wrong output' if seen else right} after {after}")
        return 1 if seen else 0
    print(f"OK: the damage of '{harm}' is seen" if seen else f"FAILED: '{harm}' did no harm: the harness is blind")
    return 0 if seen else 1
