"""What must be true in every world that can come about. Each law returns the sentence that says how it was broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from typing import TypeAlias

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import layout
from tidegate.checkpoint.events import Afterwards
from tidegate.checkpoint.manifest import Manifest
from tidegate.checkpoint.recovery import Choice, Refusal, choose
from tidegate.checkpoint.storing import failure_of
from tidegate.model.errors import CorruptSnapshot
from tidegate.model.ids import Attempt
from tidegate.testing.model import world as w
from tidegate.testing.model.ground import EXPORTS
from tidegate.testing.model.interning import Box
from tidegate.testing.model.moves import Move, Moves
from tidegate.testing.model.world import Sink, Store, World

Row: TypeAlias = tuple[int, int]
"""An epoch and a row of it."""

_JUDGED = (ef.CommitSinks, ef.StoreManifest, ef.ExportSavepoint)


class Laws:
    """Verdicts about stores and sinks are remembered: very many worlds share them."""

    def __init__(self, moves: Moves) -> None:
        self._moves = moves
        self._pipelines = range(moves.bounds.pipelines)
        self._restorable: dict[tuple[Box[Store], Box[Sink], int], Choice | Refusal] = {}
        self._verdicts: dict[tuple[Box[Store], Box[Sink]], str | None] = {}
        self._claims: dict[Box[Store], str | None] = {}

    def speak_of(self, move: Move) -> bool:
        """Whether some law is about the move itself, and not only about the world it leads to."""
        return move.ended is not None or isinstance(move.landed, _JUDGED)

    def broken_by(self, move: Move) -> str | None:
        world = move.world
        return (
            self._outcome(move)
            or self._landed(move)
            or self._claims_of(world.store)
            or self._attempts_are_owned(world)
            or self._everything_is_reachable(world)
        )

    # --- about moves ----------------------------------------------------------------------------------------------

    def _outcome(self, move: Move) -> str | None:
        if isinstance(move.ended, ef.Failed) and not self._may_refuse:
            return f"a coordinator gave up: {move.ended.failure.message}"
        if isinstance(move.ended, ef.Stopped | ef.Finished):
            return self._nothing_follows_the_savepoint(move)
        return None

    def _nothing_follows_the_savepoint(self, move: Move) -> str | None:
        """A query that stopped with a savepoint has shown nothing that is not in it: going on from it repeats nothing."""
        documents = self._moves.ground.documents(move.world.store, move.pipeline)
        newest = self._newest_claim(move)
        for key, exported in sorted(documents.items()):
            if key.startswith(EXPORTS) and isinstance(exported, Manifest) and exported.attempt == newest:
                stops = not key.endswith(Afterwards.RUN_ON.name)
                behind = _visible(move.world.sink.value, move.pipeline).keys() - _rows_up_to(w.epoch_of(exported))
                if stops and behind:
                    return f"the query stopped with {key}, but epochs {_epochs(behind)} behind it are visible: started from it, they are doubled"
        return None

    def _landed(self, move: Move) -> str | None:
        match move.landed:
            case ef.CommitSinks(committables=committables):
                return self._commit_is_a_prefix(move, committables)
            case ef.StoreManifest(manifest):
                return _numbers_rise(manifest) or _number_is_new(move, manifest)
            case ef.ExportSavepoint():
                return self._export_is_safe(move, move.landed)
            case _:
                return None

    def _commit_is_a_prefix(self, move: Move, committables: ef.CommittablesBySink) -> str | None:
        """A commit makes exactly the rows visible that the checkpoint covers: nothing missing before them."""
        fates = dict(move.world.sink.value)
        for _, ones in committables:
            for one in ones:
                transaction = w.transaction_of(one)
                if fates.get(transaction) == w.SKIPPED:
                    return f"epoch {transaction.epoch} is skipped in silence: the target has newer output than the {transaction}"
                if fates.get(transaction) == w.ABORTED and self._moves.bounds.set_backs:
                    return None
                if fates.get(transaction) != w.COMMITTED:
                    return f"epoch {transaction.epoch} is lost: the {transaction} was {fates.get(transaction)} when it was to be committed"
                if transaction.pipeline != move.pipeline:
                    return f"pipeline {move.pipeline} committed a {transaction} of pipeline {transaction.pipeline}"
        visible = _visible(move.world.sink.value, move.pipeline).keys()
        newest = max((epoch for epoch, _ in visible), default=0)
        # Of its newest epoch a sink may have handed back some.
        holes = _rows_up_to(newest - 1 if move.handed_back else newest) - visible
        return f"epochs {_epochs(holes)} are lost: later ones are visible, they are not" if holes else None

    def _export_is_safe(self, move: Move, effect: ef.ExportSavepoint) -> str | None:
        """A savepoint holds what everybody can see already, and promises nothing that is still to be published."""
        manifest, target = effect.manifest, effect.target
        exported = self._moves.ground.documents(move.world.store, 0).get(EXPORTS + target)
        if not isinstance(exported, Manifest):
            # A successor may retire what a fenced coordinator still copies; nobody else may.
            own = effect.attempt == self._newest_claim(move) and not self._moves.bounds.damages
            return (
                f"savepoint {target} cannot be written: files of checkpoint {manifest.ref} are missing" if own else None
            )
        if exported.committables():
            return f"savepoint {target} carries committables: whoever starts from it publishes them again"
        unseen = _rows_up_to(w.epoch_of(manifest)) - _visible(move.world.sink.value, move.pipeline).keys()
        if unseen:
            return f"savepoint {target} was exported before epochs {_epochs(unseen)} were visible: started elsewhere, they are lost"
        return None

    def _newest_claim(self, move: Move) -> int:
        documents = self._moves.ground.documents(move.world.store, move.pipeline)
        return max((key.attempt for key in map(layout.parse, documents) if isinstance(key, layout.ClaimKey)), default=0)

    # --- about worlds ---------------------------------------------------------------------------------------------

    def _everything_is_reachable(self, world: World) -> str | None:
        key = (world.store, world.sink)
        if key not in self._verdicts:
            broken = (self._next_start(world, pipeline) for pipeline in self._pipelines)
            self._verdicts[key] = next((one for one in broken if one is not None), None)
        return self._verdicts[key]

    def _next_start(self, world: World, pipeline: int) -> str | None:
        """Whoever starts now finds a checkpoint with all its files and transactions, and repeats nothing that is visible."""
        visible = _visible(world.sink.value, pipeline)
        doubled = [row for row, times in visible.items() if times > 1]
        repeats = self._moves.bounds.repeats or (self._moves.bounds.fall_back and self._loses)
        if doubled and not repeats:
            return f"epochs {_epochs(doubled)} are visible twice: doubled"
        damaged = self._may_refuse
        match self._decision(world, pipeline):
            case Refusal(failure):
                return None if damaged else f"the pipeline cannot start any more: {failure.message}"
            case Choice(None):
                epoch, ref = 0, None
            case Choice(manifest):
                assert manifest is not None
                epoch, ref = w.epoch_of(manifest), manifest.ref
                broken = self._restored(world, pipeline, manifest, visible.keys(), damaged=damaged)
                if broken is not None:
                    return broken
        again = visible.keys() - _rows_up_to(epoch)
        if again and not repeats:
            return f"epoch {max(_epochs(again))} is visible, but the next start restores {ref or 'nothing'}, which reads it again: doubled"
        return None

    def _restored(
        self, world: World, pipeline: int, manifest: Manifest, visible: Set[Row], *, damaged: bool
    ) -> str | None:
        ref = manifest.ref
        missing = manifest.chunk_keys() - self._moves.ground.documents(world.store, pipeline).keys()
        if missing and not damaged:
            return f"checkpoint {ref} would be restored, but {min(missing)} was deleted and is missing"
        fates = dict(world.sink.value)
        carried: Counter[w.Transaction] = Counter(
            w.transaction_of(one) for _, ones in manifest.committables() for one in ones
        )
        for transaction, times in sorted(carried.items()):
            if fates.get(transaction) == w.ABORTED and self._moves.bounds.set_backs:
                return None  # Whoever starts is told so by the target, and nothing runs.
            if fates.get(transaction) not in (w.PREPARED, w.COMMITTED):
                return f"checkpoint {ref} would be restored, but its {transaction} was aborted: epoch {transaction.epoch} is lost"
            if times > 1:
                return f"checkpoint {ref} carries the {transaction} {times} times: it has several owners"
        promised = frozenset[Row]().union(*(transaction.rows() for transaction in carried))
        lost = _rows_up_to(w.epoch_of(manifest)) - visible - promised
        if lost:
            return (
                f"checkpoint {ref} would be restored, and epochs {_epochs(lost)} are neither visible nor carried: lost"
            )
        return None

    @property
    def _loses(self) -> bool:
        """The location may lose what it had."""
        return self._moves.bounds.losses > 0 or self._moves.bounds.set_backs > 0

    @property
    def _may_refuse(self) -> bool:
        return self._moves.bounds.damages > 0 or self._loses

    def _decision(self, world: World, pipeline: int) -> Choice | Refusal:
        """What a person's next start would restore, by the real rules."""
        store = world.store
        known = self._restorable.get((store, world.sink, pipeline))
        if known is None:
            documents = self._moves.ground.documents(store, pipeline)
            attempts = [key.attempt for key in map(layout.parse, documents) if isinstance(key, layout.ClaimKey)]
            attempt = Attempt(max(attempts, default=0) + 1)
            plan = w.plan_for(self._moves.bounds, self._moves.plan.rules, pipeline=pipeline)
            try:
                facts = self._moves.ground.facts(store, pipeline, attempt, world.sink)
                known = choose(plan, attempt, facts, accept_duplicates=self._moves.bounds.fall_back)
            except CorruptSnapshot as error:
                known = Refusal(failure_of(error))
            self._restorable[store, world.sink, pipeline] = known
        return known

    def _claims_of(self, store: Box[Store]) -> str | None:
        if store not in self._claims:
            broken = (self._no_ping_pong(store, pipeline) for pipeline in self._pipelines)
            self._claims[store] = next((one for one in broken if one is not None), None)
        return self._claims[store]

    def _no_ping_pong(self, store: Box[Store], pipeline: int) -> str | None:
        """An automatic restart follows its own driver's claim: it never fences somebody a person has started."""
        documents = self._moves.ground.documents(store, pipeline)
        for key, document in sorted(documents.items()):
            parsed = layout.parse(key)
            if isinstance(parsed, layout.ClaimKey) and isinstance(document, w.Claimed):
                if self._moves.bounds.pipeline_of(int(document.process[1:])) != pipeline:
                    return f"{document.process} claimed attempt {parsed.attempt} of pipeline {pipeline}, not of its own"
                before = documents.get(layout.claim_key(Attempt(parsed.attempt - 1)))
                if document.automatic and isinstance(before, w.Claimed) and before.process != document.process:
                    return f"the automatic restart of {document.process} took attempt {parsed.attempt} and fenced {before.process}"
        return None

    def _attempts_are_owned(self, world: World) -> str | None:
        """Whoever runs slots in the name of an attempt has its claim: no two processes are the same attempt."""
        for number, driver in enumerate(world.drivers):
            if driver is not None and (slot := driver.value.slot) is not None:
                documents = self._moves.ground.documents(world.store, slot.pipeline)
                claim = documents.get(layout.claim_key(slot.attempt))
                if isinstance(claim, w.Claimed) and claim.process != f"p{number}":
                    return f"p{number} runs attempt {slot.attempt}, which belongs to {claim.process}"
        return None


def _numbers_rise(manifest: Manifest) -> str | None:
    """Numbers of checkpoints only rise along a lineage: whoever compares them may rely on it."""
    if manifest.parent is not None and manifest.parent[0] >= manifest.checkpoint:
        return f"checkpoint {manifest.ref} follows checkpoint {manifest.parent[0]}: its number was used before"
    return None


def _number_is_new(move: Move, manifest: Manifest) -> str | None:
    """A number that the sink knows from another attempt is never given out again: a sink that compares them would skip the rows."""
    for one, fate in move.world.sink.value:
        known = fate == w.COMMITTED and one.pipeline == move.pipeline and one.checkpoint == manifest.checkpoint
        if known and one.attempt < manifest.attempt:
            return f"checkpoint {manifest.ref} has a number that the sink knows: output of attempt {one.attempt} has it"
    return None


def _visible(sink: Sink, pipeline: int) -> Counter[Row]:
    """How often each row can be seen."""
    return Counter(
        row
        for transaction, fate in sink
        if fate == w.COMMITTED and transaction.pipeline == pipeline
        for row in transaction.rows()
    )


def _rows_up_to(epoch: int) -> frozenset[Row]:
    return frozenset((one, row) for one in range(1, epoch + 1) for row in range(w.ROWS))


def _epochs(rows: Iterable[Row]) -> list[int]:
    return sorted({epoch for epoch, _ in rows})
