"""What it means to restore an older checkpoint than the newest: whether output may come twice, and what people are told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidegate.checkpoint import remembered
from tidegate.checkpoint.events import Facts, Failure
from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.manifest import Manifest
from tidegate.model.errors import CorruptSnapshot
from tidegate.model.ids import OperatorId
from tidegate.model.snapshot import Committable


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A checkpoint of the lineage that cannot be restored."""

    ref: ManifestRef
    why: str

    def __str__(self) -> str:
        return f"{self.ref}: {self.why}"


def cannot_have_published(facts: Facts, passed: Sequence[PassedOver], target: Manifest) -> bool:
    """Proof that restoring ``target`` repeats no output: nothing above it had anything to publish that it has not.

    A missing ``committed`` is no proof, nor is a transaction that is still prepared: its author's commit may be in flight.
    A manifest that cannot be read is no proof either.
    """
    carried = _all_committables(target)
    return all(
        manifest is not None and _all_committables(manifest) <= carried
        for manifest in (facts.readable.get(one.ref) for one in passed)
    )


def no_proof(passed: Sequence[PassedOver], older: ManifestRef) -> Failure:
    return Failure(
        CorruptSnapshot.code,
        f"checkpoint {passed[0].ref} cannot be restored, and its output may be visible already, so going back to "
        f"{older} could double rows:\n  " + "\n  ".join(map(str, passed)),
        hint='restore the files from a copy; or accept duplicates: .option("onCorruptCheckpoint", "fallBack")',
        retryable=False,
    )


def given_up(facts: Facts, passed: Sequence[PassedOver], chosen: Manifest | None) -> Iterator[str]:
    """For the log: which checkpoints are left behind, why, and what the query goes on from instead."""
    ref = None if chosen is None else chosen.ref
    instead = "the query begins anew" if ref is None else f"checkpoint {ref} is restored instead"
    if passed:
        proven = chosen is not None and cannot_have_published(facts, passed, chosen)
        rows = "They had published nothing: no row comes twice" if proven else "Rows that they had published come again"
        yield f"given up, because they cannot be restored: checkpoints\n  {_lines(passed)}\n{instead}. {rows}"
    known = {one for restored in facts.restored.values() for one in restored.accepted}
    left = remembered.beyond(facts, ref) - known
    for sink, published in facts.published:
        if published in left:
            yield (
                f"given up: the target of {sink} holds output of {published}, of which the checkpoint location has no manifest; "
                f"{instead}. What came after that comes again"
            )


def _lines(passed: Sequence[PassedOver]) -> str:
    return "\n  ".join(map(str, passed))


def _all_committables(manifest: Manifest) -> frozenset[tuple[OperatorId, Committable]]:
    return frozenset((entry.operator, one) for entry in manifest.operators for one in entry.committables)
