"""Mistakes that implementations of distributed checkpoints have made, and the tests that fail on each.

A test names the traps it closes by number in its docstring; a mutant names the one it falls into. `tools/reference.py` writes the page.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tidegate.testing.mutants.catalogue import MUTANTS

TESTS = Path(__file__).resolve().parent.parent / "tests"
_NUMBER = re.compile(r"\bT(\d{1,2})\b")

TRAPS: dict[int, str] = {
    1: "Output that was complete but not yet committed at a crash is never committed",
    2: "A notice of completion is lost, doubled or late, and output is lost or doubled with it",
    3: "A commit succeeds outside while its caller sees a failure, and is done twice",
    4: "Numbers repeat after an older snapshot was restored, so new output is taken for committed",
    5: "Output becomes visible before the checkpoint it belongs to is complete",
    6: "What an aborted checkpoint prepared is dropped",
    7: "A late acknowledgement completes a checkpoint that a newer one has replaced",
    8: "An acknowledgement of an earlier attempt counts for the present one",
    9: "A task that was given up lives on and writes state or output",
    10: "Two coordinators of one pipeline commit at once",
    11: "The manifest is not written last, or not at once",
    12: "The protocol needs a rename or a listing that an object store does not offer",
    13: "A checkpoint without a manifest, or a damaged one, is restored",
    14: "Rows behind a barrier are processed before the barriers of the other inputs have come",
    15: "Rows set aside during alignment come after newer ones",
    16: "A channel without rows gets no barrier",
    17: "An input that has ended blocks alignment for ever",
    18: "A source ends between the plan of a checkpoint and its trigger",
    19: "The job ends before its last output is committed",
    20: "Output is committed at the end of the input, without a checkpoint",
    21: "State held by a subtask that has finished is missing",
    22: "State of a checkpoint contains changes behind its barrier when several are under way",
    23: "A snapshot that is stored later sees later changes",
    24: "Output that waits is overtaken by the barrier, or the barrier by output behind it",
    25: "A timer is not in the snapshot, or fires twice",
    26: "The watermark is not in the snapshot: windows close early, late or again",
    27: "Only the smallest watermark is restored, not that of each channel and which are idle",
    28: "The wall clock jumps, and triggers, timeouts or retention with it",
    29: "Every tick missed during a pause fires afterwards",
    30: "The least pause is counted from the start of a checkpoint instead of its end",
    31: "The count of tolerated failures is reset or raised by the wrong outcomes",
    32: "A timeout aborts a checkpoint that is durable while its output is being committed",
    33: "A source's position is committed to its broker before the checkpoint is complete",
    34: "The position is that of the last row fetched instead of the last row handed out",
    35: "Splits assigned during a checkpoint are lost or read twice",
    36: "A file that another checkpoint needs is deleted",
    37: "Deletes from before a restart falsify the counts after it",
    38: "A task deletes its files when a checkpoint is aborted, though an older one shares them",
    39: "A snapshot builds upon an upload that was never confirmed",
    40: "Files of a checkpoint are deleted while it is being restored",
    41: "A file that is gone already is an error that blocks clean-up or triggers",
    42: "One file that cannot be deleted stops all clean-up",
    43: "Too many checkpoints are kept, or retention is forgotten at a restart",
    44: "The group of a key differs between processes",
    45: "Rescaling leaves a key group without an owner, or with two",
    46: "After a rescale the committer waits for subtasks that have nothing, or forgets those that are gone",
    47: "The number of key groups changes between two runs",
    48: "Operators are known by their position, so state moves when the query changes",
    49: "Drain and suspend are mixed up: windows close that should stay open, or the reverse",
    50: "Recovery goes back behind a savepoint whose output is visible",
    51: "A failure between a savepoint and its commits loses the savepoint",
    52: "At-least-once passes for exactly-once",
    53: "A transaction of the sink expires before a restarted query can commit it",
    54: "What a crash left open at the sink blocks its readers",
    55: "Two sinks use the same names for what they prepare",
    56: "Output that can never be committed is tried for ever",
    57: "An empty checkpoint forgets what is pending, or writes empty files",
    58: "A crash before the first checkpoint leads to a partial cut",
    59: "An operator whose entry is missing starts empty",
    60: "A query counts as running while it takes no checkpoints",
    61: "An error on the way of a trigger is swallowed, and no further one comes",
    62: "Replayed rows come out differently and change what was published",
    63: "Decoding a snapshot runs code",
    64: "Spark starts a second copy of a running task",
    65: "A timeout is computed from another machine's clock",
    66: "A task stuck in a snapshot is found only by the timeout of the whole checkpoint",
    67: "A task that is not ready keeps the checkpoint waiting for its timeout",
    68: "A failed checkpoint leaves no trace of who was late",
    69: "Splits that are known but not yet read do not hold the watermark: their rows are late when their turn comes",
    70: "Files that land together after a quiet time: the rows of the first slot drive time past those of the other",
    71: "Idleness is restored as a fact: what came during the downtime is late",
    72: "A partition that nobody can read (no leader, a silent broker, a store that does not list) counts as idle",
    73: "The newest manifest is missing, its number is given out again, and a sink that compares numbers skips the rows",
    74: "The location is brought back from an older copy, and sinks skip what they think they have",
    75: "Output of the next checkpoint overtakes that of the last on its way to one partition",
    76: "Batch numbers repeat with other rows after a start from an older savepoint",
    77: "A commit during the stop is not recorded, and is reported as lost once its target has forgotten the transaction",
    78: "A document lacks a part, and the successor starts that part fresh",
    79: "A stored field is renamed, and old documents read as empty",
    80: "A tombstone is dropped at a merge while an older chunk still holds the key",
    81: "A record that kills the process is restarted for ever",
    82: "Bytes from outside are trusted: sizes, lengths, offsets, paths",
    83: "Commit messages or positions are unpickled from storage",
    84: "The value of an option shows a secret in a plan, a log, an error or a page",
    85: "The watermark moves inside a file: rows of the same file, or of its neighbours, are late",
    86: "A checkpoint stores the driver's live view of what was read instead of what the acknowledgements say",
    87: "The second query of an application waits for resources that the first one holds for ever",
    88: "Fixed costs per turn, wake-up and poll: a nearly idle stream burns cores",
}
_STRANGERS = "what comes from outside is not mutated as a whole yet"
NOT_BUILT: dict[int, str] = {
    81: _STRANGERS,
    84: _STRANGERS,
    87: "slots belong to one query so far",
    88: "measured by no benchmark so far",
}
"""Why no test names a trap."""


@dataclass(frozen=True, slots=True)
class Closing:
    """A test that fails when somebody falls into the trap."""

    file: str
    claim: str


def closings() -> dict[int, list[Closing]]:
    """By trap, in the order of the files."""
    found: dict[int, list[Closing]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        file = str(path.relative_to(TESTS))
        for name, text in _docstrings(ast.parse(path.read_text())):
            for number in sorted({int(number) for number in _NUMBER.findall(text)}):
                found[number].append(Closing(file, name))
    return found


def _docstrings(module: ast.Module) -> Iterator[tuple[str, str]]:
    first = (ast.get_docstring(module) or "").partition("\n")[0]
    yield first.partition(": ")[2].rstrip("."), first
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef):
            yield node.name.removeprefix("test_").replace("_", " "), ast.get_docstring(node) or ""
        elif isinstance(node, ast.ClassDef):
            text = ast.get_docstring(node) or ""
            yield text.partition(": ")[2].partition(".")[0], text


def traps_page() -> str:
    closed = closings()
    mutants: dict[int, list[str]] = defaultdict(list)
    for mutant in MUTANTS:
        for number in _NUMBER.findall(mutant.against):
            mutants[int(number)].append(mutant.name)
    sections = [_section(number, closed[number], mutants[number]) for number in TRAPS]
    return f"""# Traps

Generated by `tools/reference.py`; do not edit. Each heading is a mistake that implementations of distributed checkpoints have made.
Below it stand the tests that fail on it, by file and by what they claim, and the mutants that make it on purpose: `make mutants` plants
each of them in the real code and expects to find the harm. {len(TRAPS) - len(NOT_BUILT)} of {len(TRAPS)} traps are closed.

{chr(10).join(sections)}"""


def _section(number: int, tests: list[Closing], mutants: list[str]) -> str:
    lines = [f"## T{number}. {TRAPS[number]}", ""]
    lines += [f"- `{test.file}`: {test.claim}" for test in tests]
    if mutants:
        lines.append(f"- mutants: {', '.join(mutants)}")
    if number in NOT_BUILT:
        lines.append(f"Not built: {NOT_BUILT[number]}.")
    return "\n".join(lines) + "\n"
