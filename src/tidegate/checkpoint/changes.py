"""Whether the state of a checkpoint fits the query that wants to go on from it, and what becomes of the parts that do not.

State is never given up, mixed up or reinterpreted silently: whatever does not fit is refused in words that say what was and
what is now, and only the user can allow it to be dropped. Output that waits to be published cannot be dropped at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from tidegate.checkpoint.events import Failure
from tidegate.checkpoint.manifest import Manifest
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.model.errors import CorruptSnapshot, InvalidQuery
from tidegate.model.ids import OperatorId, SlotIndex
from tidegate.model.shape import PLACE, StateShape, changes
from tidegate.model.snapshot import OperatorSnapshot
from tidegate.plan.dead_letters import is_dead_letter_id
from tidegate.plan.graph import is_input_state
from tidegate.plan.identity import base_of, kind_of

_ELSEWHERE = "restore the query as it was, or start the changed query at a new checkpointLocation"


@dataclass(frozen=True, slots=True)
class Fit:
    """The checkpoint as this query restores it, and what the user should know about the difference."""

    manifest: Manifest
    """Exactly the operators of this query: new ones have an empty entry, those given up have none."""
    notes: tuple[str, ...] = ()


def fit(plan: CheckpointPlan, manifest: Manifest, *, published: bool) -> Fit | Failure:
    """``published``: all output the checkpoint carries is known to be visible."""
    return _other_pipeline(plan, manifest) or _changed_query(plan, _Comparison(plan, manifest, published))


class _Comparison:
    """Who is gone, who is new, who still holds what."""

    def __init__(self, plan: CheckpointPlan, manifest: Manifest, published: bool) -> None:
        self.manifest = manifest
        held: dict[OperatorId, list[OperatorSnapshot]] = {}
        for entry in manifest.operators:
            held.setdefault(entry.operator, []).append(entry)
        self.held = held
        self.gone = tuple(sorted(held.keys() - set(plan.stateful)))
        self.new = tuple(operator for operator in plan.stateful if operator not in held)
        self.was = {shape.operator: shape for shape in manifest.shapes}
        self.now = {shape.operator: shape for shape in plan.shapes}
        self._published = published

    def owes(self, operator: OperatorId) -> bool:
        """Whether it has prepared output that may not be visible yet."""
        return not self._published and any(entry.committables for entry in self.held.get(operator, ()))

    def stranded(self) -> dict[OperatorId, int]:
        """By operator, how many rows that an unaligned barrier overtook wait in its inputs and do not fit them any more."""
        moved = bool(self.gone or self.new)
        return {
            operator: sum(rows.chunk.rows for entry in entries for rows in entry.in_flight)
            for operator, entries in sorted(self.held.items())
            # The number of an edge moves with the stages, and columns of rows under way with the plan.
            if any(entry.in_flight for entry in entries) and (moved or self.was.get(operator) != self.now.get(operator))
        }

    def lost(self) -> tuple[OperatorId, ...]:
        """Those gone that held something: event time comes back by itself, and a dead-letter sink only owes."""
        return tuple(one for one in self.gone if not is_input_state(one) and not is_dead_letter_id(one))


def _other_pipeline(plan: CheckpointPlan, manifest: Manifest) -> Failure | None:
    if manifest.pipeline != plan.pipeline:
        return _failure(
            f"checkpoint {manifest.ref} belongs to pipeline {manifest.pipeline}, not to {plan.pipeline}",
            hint="two locations were mixed: use a checkpointLocation of its own",
            code=CorruptSnapshot.code,
        )
    if manifest.max_parallelism != plan.config.max_parallelism:
        return _failure(
            f"checkpoint {manifest.ref} was taken with maxParallelism {manifest.max_parallelism}; "
            f"this start asks for {plan.config.max_parallelism}",
            hint=f'keep .option("maxParallelism", {manifest.max_parallelism}), or start at a new checkpointLocation',
        )
    return None


def _changed_query(plan: CheckpointPlan, compared: _Comparison) -> Fit | Failure:
    refused = (
        _no_entry(compared)
        or _confusable(plan, compared)
        or (None if plan.config.drop_in_flight else _overtaken(compared))
        or _unpublished(compared)
        or (None if plan.config.allow_dropped_state else _removed(compared))
        or _redefined(plan, compared)
    )
    if refused is not None:
        return refused
    manifest = _without_rows(compared.manifest, compared.stranded())
    if compared.gone or compared.new:
        manifest = _adapted(plan, compared, manifest)
    return Fit(manifest, tuple(_notes(compared)))


def _no_entry(compared: _Comparison) -> Failure | None:
    """A checkpoint that does not say which operators it covers: an absent entry may be a lost one."""
    if compared.manifest.stateful or not compared.new:
        return None
    return _failure(
        f"checkpoint {compared.manifest.ref} holds no state of operator {compared.new[0]!r}; "
        "starting it empty would give wrong results",
        hint=_ELSEWHERE,
    )


def _confusable(plan: CheckpointPlan, compared: _Comparison) -> Failure | None:
    """Equals are told apart by a number only; when there are more or fewer of them, nobody knows which is which."""
    derived = [one for one in plan.stateful if one not in plan.pinned and not is_input_state(one)]
    for base in dict.fromkeys(map(base_of, derived)):
        now = sorted(one for one in derived if base_of(one) == base)
        was = sorted(one for one in compared.held if base_of(one) == base and not is_input_state(one))
        if was and was != now and max(len(was), len(now)) > 1:
            return _failure(
                f"checkpoint {compared.manifest.ref} holds the state of {' and '.join(was)}; this query has "
                f"{' and '.join(now)}: nothing says which of them is which",
                hint=f'say it: .option("uid.{now[0]}", "{was[0]}") gives the first the state of {was[0]}; '
                "name each of them, new ones with new names",
            )
    return None


def _overtaken(compared: _Comparison) -> Failure | None:
    stranded = compared.stranded()
    if not stranded:
        return None
    return _failure(
        f"checkpoint {compared.manifest.ref} is an unaligned one, with {_rows_on_their_way(stranded)}; "
        "they fit only the query that was running",
        hint="start the query as it was, stop it with a savepoint, and start the changed one from there; "
        'or give these rows up: .option("inFlightRows", "drop")',
    )


def _unpublished(compared: _Comparison) -> Failure | None:
    """Output of a sink that is gone, or writes elsewhere now, would never be published: no option allows that."""
    for operator in compared.held:
        if not compared.owes(operator):
            continue
        if operator in compared.gone:
            what = f"sink {operator!r}, absent from this query"
        elif moved := _differences(compared, operator, frozenset()):
            what = f"sink {operator!r}, which has changed ({'; '.join(moved)})"
        else:
            continue
        return _failure(
            f"checkpoint {compared.manifest.ref} carries output that is not published yet, of {what}",
            hint="start the query as it was once more: it publishes the output first; "
            "stop it after query.checkpoint(), then start the changed one",
        )
    return None


def _removed(compared: _Comparison) -> Failure | None:
    lost = compared.lost()
    if not lost:
        return None
    lines = [f"{operator}{_replaced_by(compared, operator)}" for operator in lost]
    return _failure(
        f"checkpoint {compared.manifest.ref} holds state of {_operators(lost)} absent from this query:\n  "
        + "\n  ".join(lines),
        hint='restore the query as it was; or give that state up: .option("allowDroppedState", True); or, if only the name '
        f'has changed, .option("uid.<operator>", "{lost[0]}"). This query has {", ".join(compared.now) or "others"}',
    )


def _replaced_by(compared: _Comparison, operator: OperatorId) -> str:
    """One of its kind gone and one new: most likely the same one, changed. The difference is what the user wants to see."""
    kind = kind_of(operator)
    new = [one for one in compared.new if kind_of(one) == kind and not is_input_state(one)]
    gone = [one for one in compared.lost() if kind_of(one) == kind]
    was = compared.was.get(operator)
    if was is None:
        return ""
    if len(new) != 1 or len(gone) != 1 or new[0] not in compared.now:
        return f" ({_words(was)})"
    return f" became {new[0]}: {'; '.join(changes(was, compared.now[new[0]])) or 'nothing but its name has changed'}"


def _redefined(plan: CheckpointPlan, compared: _Comparison) -> Failure | None:
    lines = list(_changed_operators(plan, compared))
    if not lines:
        return None
    first, parts = lines[0]
    moved = all(part.startswith(f"{PLACE}: ") for part in parts)
    return _failure(
        f"{_operators([operator for operator, _ in lines])} changed since checkpoint {compared.manifest.ref}:\n  "
        + "\n  ".join(f"{operator}: {'; '.join(parts)}" for operator, parts in lines),
        hint=(
            f'if it is the same source, say so: .option("uid.{first}", "{first}"); what lies at the new place counts as new'
            if moved
            else "restore the query as it was, or start the changed query at a new checkpointLocation; to begin that "
            f'operator anew here: .option("uid.{first}", "<a new name>").option("allowDroppedState", True)'
        ),
    )


def _changed_operators(plan: CheckpointPlan, compared: _Comparison) -> Iterator[tuple[OperatorId, tuple[str, ...]]]:
    for operator in compared.now:
        # A sink that owes nothing keeps no state; event time fits every stage.
        if operator in compared.held and operator not in plan.sinks and not is_input_state(operator):
            ignored = frozenset((PLACE,)) if operator in plan.pinned else frozenset[str]()
            if parts := _differences(compared, operator, ignored):
                yield operator, parts


def _differences(compared: _Comparison, operator: OperatorId, ignore: frozenset[str]) -> tuple[str, ...]:
    was, now = compared.was.get(operator), compared.now.get(operator)
    return changes(was, now, ignore=ignore) if was is not None and now is not None else ()


def _without_rows(manifest: Manifest, stranded: dict[OperatorId, int]) -> Manifest:
    """Without the rows under way to these operators. All others get theirs back."""
    if not stranded:
        return manifest
    entries = (
        msgspec.structs.replace(entry, in_flight=()) if entry.operator in stranded else entry
        for entry in manifest.operators
    )
    return msgspec.structs.replace(manifest, operators=tuple(entries))


def _adapted(plan: CheckpointPlan, compared: _Comparison, manifest: Manifest) -> Manifest:
    kept = [entry for entry in manifest.operators if entry.operator not in compared.gone]
    empty = [OperatorSnapshot(operator=operator, subtask=SlotIndex(0)) for operator in compared.new]
    return msgspec.structs.replace(
        manifest,
        operators=tuple(sorted((*kept, *empty), key=lambda entry: (entry.operator, entry.subtask))),
        sources=tuple(source for source in manifest.sources if source.operator in plan.sources),
        stateful=plan.stateful,
        shapes=plan.shapes,
    )


def _notes(compared: _Comparison) -> Iterator[str]:
    ref = compared.manifest.ref
    if compared.manifest.ends_pipeline:
        yield (
            f"checkpoint {ref} was drained: it is the end of the query. Its windows are closed, and rows that belong to them are "
            "late; to read on all the same, start from it at a new checkpointLocation (startFrom)"
        )
    stranded = compared.stranded()
    if stranded:
        yield (
            f"{_rows_on_their_way(stranded)} in checkpoint {ref} are given up, as inFlightRows=drop asks: they fit only the query "
            "that was running, and no source reads them again"
        )
    for operator in compared.gone:
        if not is_input_state(operator):
            yield f"the state of operator {operator} in checkpoint {ref} is given up: this query has no such operator"
    for operator in compared.new:
        if not is_input_state(operator):
            yield f"operator {operator} is not in checkpoint {ref}: it starts empty"


def _rows_on_their_way(stranded: dict[OperatorId, int]) -> str:
    return " and ".join(f"{rows} rows on their way to {_named(operator)}" for operator, rows in stranded.items())


def _named(operator: OperatorId) -> str:
    return operator.rpartition(".")[0] if is_input_state(operator) else operator


def _operators(names: list[OperatorId] | tuple[OperatorId, ...]) -> str:
    return f"operator {names[0]!r}" if len(names) == 1 else f"operators {', '.join(map(repr, names))}"


def _words(shape: StateShape) -> str:
    return "; ".join(f"{name}: {words}" for name, words in shape.parts)


def _failure(message: str, *, hint: str, code: str = InvalidQuery.code) -> Failure:
    return Failure(code, message, hint=hint, retryable=False)
