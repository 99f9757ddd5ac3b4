"""What holds between the parts of every manifest, one claim each: checked when one is built, and again when one is read.

A claim that does not hold means that a part was lost, or means something else now (`T78`). A claim has to hold in everything that
released versions have stored, so a document is never refused for what it did not yet say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from tidegate.checkpoint.layout import IMPORTED, chunk_key, chunk_origin
from tidegate.model.errors import CorruptSnapshot
from tidegate.model.ids import OperatorId, SlotIndex

if TYPE_CHECKING:
    from tidegate.checkpoint.manifest import Manifest, SourceState
    from tidegate.model.snapshot import Committable

Contradictions: TypeAlias = Iterator[str]
"""What speaks against a claim, in words; nothing: it holds."""


def contradiction(manifest: Manifest) -> str | None:
    """The first claim that does not hold, in words; None: all do."""
    return next((words for claim in CLAIMS for words in claim(manifest)), None)


def contradiction_in_source(source: SourceState) -> str | None:
    return next((words for claim in SOURCE_CLAIMS for words in claim(source)), None)


# --- the checkpoint itself ------------------------------------------------------------------------------------------------


def numbers_count_from_one(manifest: Manifest) -> Contradictions:
    if manifest.checkpoint < 1 or manifest.attempt < IMPORTED:
        yield f"checkpoint and attempt count from 1, not {manifest.checkpoint} and {manifest.attempt}"


def an_imported_checkpoint_is_a_beginning(manifest: Manifest) -> Contradictions:
    if manifest.attempt != IMPORTED:
        return
    if manifest.parent is not None or any(entry.committables for entry in manifest.operators) or manifest.written:
        yield "an imported checkpoint has neither a parent nor output, published or to publish"


def the_parent_is_older(manifest: Manifest) -> Contradictions:
    if manifest.parent is None:
        return
    checkpoint, attempt = manifest.parent
    if checkpoint >= manifest.checkpoint:
        yield f"parent {checkpoint} is not older than {manifest.checkpoint}"
    if attempt > manifest.attempt:
        yield f"parent {checkpoint} is of attempt {attempt}, which came after attempt {manifest.attempt}"


def parallelism_is_within_bounds(manifest: Manifest) -> Contradictions:
    if not 1 <= manifest.parallelism <= manifest.max_parallelism:
        yield f"parallelism {manifest.parallelism} is not within 1 … {manifest.max_parallelism}"


# --- operators ------------------------------------------------------------------------------------------------------------


def entries_are_sorted_and_unique(manifest: Manifest) -> Contradictions:
    entries = [(entry.operator, entry.subtask) for entry in manifest.operators]
    if entries != sorted(set(entries)):
        yield "operator entries are not sorted or not unique"


def entries_are_of_subtasks_that_ran(manifest: Manifest) -> Contradictions:
    for entry in manifest.operators:
        if not 0 <= entry.subtask < manifest.parallelism:
            yield f"there is state of subtask {entry.subtask} of {entry.operator}, and parallelism was {manifest.parallelism}"


def every_stateful_operator_has_an_entry(manifest: Manifest) -> Contradictions:
    missing = sorted(set(manifest.stateful) - {entry.operator for entry in manifest.operators})
    if missing:
        yield f"the state of {', '.join(missing)} is missing"


def shapes_describe_operators_of_the_checkpoint(manifest: Manifest) -> Contradictions:
    described = [shape.operator for shape in manifest.shapes]
    if described != sorted(set(described)):
        yield "shapes are not sorted or not unique"
    known = {entry.operator for entry in manifest.operators}
    strange = [operator for operator in described if operator not in known]
    if strange:
        yield f"there is a shape of {', '.join(strange)} and no state of it"


def progress_of_sources_stands_in_sources_alone(manifest: Manifest) -> Contradictions:
    for entry in manifest.operators:
        if entry.source is not None:
            yield f"the entry of {entry.operator} holds progress, which belongs into sources"


# --- chunks ---------------------------------------------------------------------------------------------------------------


def chunks_lie_in_the_location(manifest: Manifest) -> Contradictions:
    for chunk in manifest.chunks():
        try:
            chunk_key(chunk.name)
        except CorruptSnapshot as refused:
            yield refused.message


def no_chunk_is_newer_than_the_checkpoint(manifest: Manifest) -> Contradictions:
    for chunk in manifest.chunks():
        origin = chunk_origin(chunk.name)
        if origin is not None and (origin.checkpoint > manifest.checkpoint or origin.attempt > manifest.attempt):
            yield f"chunk {chunk.name} was written for checkpoint {origin}, after {manifest.ref}"


def key_groups_are_within_bounds(manifest: Manifest) -> Contradictions:
    for entry in manifest.operators:
        for chunk in entry.chunks:
            if not 0 <= chunk.groups.start < chunk.groups.stop <= manifest.max_parallelism:
                groups = f"{chunk.groups.start} … {chunk.groups.stop}"
                yield f"chunk {chunk.name} holds key groups {groups}, of 0 … {manifest.max_parallelism}"


def no_key_group_has_two_owners(manifest: Manifest) -> Contradictions:
    """Each subtask of an operator owns one range of key groups, and what its chunks hold lies in that."""
    hulls: dict[OperatorId, list[tuple[int, int, SlotIndex]]] = {}
    for entry in manifest.operators:
        if entry.chunks:
            start = min(chunk.groups.start for chunk in entry.chunks)
            stop = max(chunk.groups.stop for chunk in entry.chunks)
            hulls.setdefault(entry.operator, []).append((start, stop, entry.subtask))
    for operator, owned in hulls.items():
        owned.sort()
        for (_, stop, one), (start, _, other) in pairwise(owned):
            if start < stop:
                yield f"key group {start} of {operator} is in the state of subtask {one} and of subtask {other}"


# --- output ---------------------------------------------------------------------------------------------------------------


def no_output_is_newer_than_the_checkpoint(manifest: Manifest) -> Contradictions:
    for entry in manifest.operators:
        for one in entry.committables:
            if one.checkpoint > manifest.checkpoint:
                yield f"{entry.operator} holds output of checkpoint {one.checkpoint}, after {manifest.ref}"
    for written in manifest.written:
        if written.checkpoint > manifest.checkpoint or written.attempt > manifest.attempt:
            yield f"{written.sink} is said to have written {written.published}, after {manifest.ref}"


def output_with_one_place_is_the_same(manifest: Manifest) -> Contradictions:
    """Commits go by the place: checkpoint, subtask and number. Several subtasks may carry one committable."""
    seen: dict[tuple[object, ...], Committable] = {}
    for entry in manifest.operators:
        for one in entry.committables:
            place = (entry.operator, one.checkpoint, one.subtask, one.number)
            if seen.setdefault(place, one).payload != one.payload:
                where = f"number {one.number} of subtask {one.subtask}, checkpoint {one.checkpoint}"
                yield f"{entry.operator} holds two different outputs {where}"


def what_was_written_last_covers_the_output(manifest: Manifest) -> Contradictions:
    """A sink without a word here wrote with a version that did not say so."""
    newest = {written.sink: written.checkpoint for written in manifest.written}
    if [one.sink for one in manifest.written] != sorted(newest):
        yield "what sinks wrote last is not sorted or not unique"
    for entry in manifest.operators:
        for one in entry.committables:
            last = newest.get(entry.operator, one.checkpoint)
            if one.checkpoint > last:
                yield f"{entry.operator} holds output of checkpoint {one.checkpoint} and is said to have written until {last}"


def output_is_numbered_as_batches(manifest: Manifest) -> Contradictions:
    if manifest.numbering is None:
        return
    for sink, committables in manifest.committables():
        given = {checkpoint for checkpoint, _ in manifest.numbering.of(sink).given}
        without = sorted({one.checkpoint for one in committables} - given)
        if without:
            yield f"output that {sink} prepared for checkpoint {without[0]} has no batch id"


# --- sources --------------------------------------------------------------------------------------------------------------


def every_source_is_told_once(manifest: Manifest) -> Contradictions:
    told = [source.operator for source in manifest.sources]
    if len(set(told)) != len(told):
        yield f"a source is told of twice: {', '.join(sorted(told))}"


def every_source_tells_its_progress(manifest: Manifest, sources: Iterable[OperatorId]) -> Contradictions:
    """``sources``: of the query. Not one of ``CLAIMS``: a manifest does not say which operators are sources. A source that the
    checkpoint does not know is new in the query; once restored, its entries are empty, as its readers never leave them."""
    told = {source.operator for source in manifest.sources}
    has_read = {entry.operator for entry in manifest.operators if entry.value}
    for source in sources:
        if source in has_read and source not in told:
            yield f"the progress of {source} is missing"


def splits_come_from_an_enumerator(manifest: Manifest) -> Contradictions:
    """Asked where a checkpoint is to be restored: without that list the source would discover once more, under the same numbers, and
    take other splits for done. Not one of ``CLAIMS``: documents that say less are still read, for what else they say."""
    for source in manifest.sources:
        if (source.done or source.open) and not source.enumerator:
            yield f"splits of {source.operator} are done or open, and the list of those it has discovered is missing"


def splits_read_to_the_end_are_sorted_ranges(source: SourceState) -> Contradictions:
    stop = -1
    for interval in source.done:
        if not stop < interval.start < interval.stop:
            yield f"done ranges of {source.operator} are not disjoint, sorted and apart: {source.done}"
        stop = interval.stop


def no_split_is_open_twice(source: SourceState) -> Contradictions:
    numbers = [position.split.number for position in source.open]
    if len(set(numbers)) != len(numbers):
        yield f"a split of {source.operator} is open twice: {sorted(numbers)}"


def no_split_is_open_and_read_to_the_end(source: SourceState) -> Contradictions:
    for position in source.open:
        number = position.split.number
        if any(interval.start <= number < interval.stop for interval in source.done):
            yield f"split {number} of {source.operator} is open and read to the end"


CLAIMS: tuple[Callable[[Manifest], Iterable[str]], ...] = (
    numbers_count_from_one,
    an_imported_checkpoint_is_a_beginning,
    the_parent_is_older,
    parallelism_is_within_bounds,
    entries_are_sorted_and_unique,
    entries_are_of_subtasks_that_ran,
    every_stateful_operator_has_an_entry,
    shapes_describe_operators_of_the_checkpoint,
    progress_of_sources_stands_in_sources_alone,
    chunks_lie_in_the_location,
    no_chunk_is_newer_than_the_checkpoint,
    key_groups_are_within_bounds,
    no_key_group_has_two_owners,
    no_output_is_newer_than_the_checkpoint,
    output_with_one_place_is_the_same,
    what_was_written_last_covers_the_output,
    output_is_numbered_as_batches,
    every_source_is_told_once,
)
SOURCE_CLAIMS: tuple[Callable[[SourceState], Iterable[str]], ...] = (
    splits_read_to_the_end_are_sorted_ranges,
    no_split_is_open_twice,
    no_split_is_open_and_read_to_the_end,
)
