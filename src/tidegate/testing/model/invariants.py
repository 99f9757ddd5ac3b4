"""What must be true in every world that can come about. Each law returns the sentence that says how it was broken."""

from __future__ import annotations

from collections import Counter

from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import layout
from tidegate.checkpoint.recovery import Choice, Refusal, choose
from tidegate.model.ids import Attempt
from tidegate.testing.model import world as w
from tidegate.testing.model.interning import Box
from tidegate.testing.model.moves import Move, Moves
from tidegate.testing.model.world import Sink, Store, World


class Laws:
    """Verdicts about stores and sinks are remembered: very many worlds share them."""

    def __init__(self, moves: Moves) -> None:
        self._moves = moves
        self._restorable: dict[Box[Store], tuple[Choice | Refusal, bool]] = {}
        self._verdicts: dict[tuple[Box[Store], Box[Sink]], str | None] = {}
        self._claims: dict[Box[Store], str | None] = {}

    def broken_by(self, move: Move) -> str | None:
        world = move.world
        return (
            self._outcome(move)
            or self._commit_is_a_prefix(move)
            or self._no_ping_pong(world.store)
            or self._everything_is_reachable(world)
        )

    def _commit_is_a_prefix(self, move: Move) -> str | None:
        """A commit makes exactly the rows visible that the checkpoint covers: nothing missing before them."""
        if move.committed is None:
            return None
        fates = dict(move.world.sink.value)
        for _, ones in move.committed.committables:
            for one in ones:
                transaction = w.transaction_of(one)
                if fates.get(transaction) != w.COMMITTED:
                    return f"epoch {transaction.epoch} is lost: its transaction {transaction} was {fates.get(transaction)} when it was to be committed"
        visible = {transaction.epoch for transaction, fate in move.world.sink.value if fate == w.COMMITTED}
        holes = set(range(1, max(visible, default=0) + 1)) - visible
        return f"epochs {sorted(holes)} are lost: later ones are visible, they are not" if holes else None

    def _everything_is_reachable(self, world: World) -> str | None:
        key = (world.store, world.sink)
        if key not in self._verdicts:
            self._verdicts[key] = self._next_start(world)
        return self._verdicts[key]

    def _next_start(self, world: World) -> str | None:
        """Whoever starts now finds a checkpoint with all its files and transactions, and repeats nothing that is visible."""
        committed = [transaction.epoch for transaction, fate in world.sink.value if fate == w.COMMITTED]
        doubled = [epoch for epoch, times in Counter(committed).items() if times > 1]
        if doubled:
            return f"epochs {sorted(doubled)} are visible twice"
        decision, damaged = self._decision(world.store)
        match decision:
            case Refusal(failure):
                return None if damaged else f"the pipeline cannot start any more: {failure.message}"
            case Choice(None):
                epoch, ref = 0, None
            case Choice(manifest):
                assert manifest is not None
                epoch, ref = w.epoch_of(manifest), manifest.ref
                missing = manifest.chunk_keys() - self._moves.ground.documents(world.store).keys()
                if missing and not damaged:
                    return f"checkpoint {ref} would be restored, but {min(missing)} was deleted"
                fates = dict(world.sink.value)
                visible = {transaction.epoch for transaction in fates if fates[transaction] == w.COMMITTED}
                carried = {w.transaction_of(one) for _, ones in manifest.committables() for one in ones}
                for transaction in sorted(carried):
                    if fates.get(transaction) not in (w.PREPARED, w.COMMITTED):
                        return f"checkpoint {ref} would be restored, but its {transaction} was aborted: epoch {transaction.epoch} is lost"
                lost = set(range(1, epoch + 1)) - visible - {transaction.epoch for transaction in carried}
                if lost:
                    return f"checkpoint {ref} would be restored, and epochs {sorted(lost)} are neither visible nor carried: lost"
        again = [one for one in committed if one > epoch]
        if again:
            return f"epoch {max(again)} is visible, but the next start restores {ref or 'nothing'}, which reads it again: doubled"
        return None

    def _decision(self, store: Box[Store]) -> tuple[Choice | Refusal, bool]:
        """What a person's next start would restore, by the real rules; and whether the store was damaged from outside."""
        known = self._restorable.get(store)
        if known is None:
            documents = self._moves.ground.documents(store)
            attempts = [key.attempt for key in map(layout.parse, documents) if isinstance(key, layout.ClaimKey)]
            attempt = Attempt(max(attempts, default=0) + 1)
            decision = choose(self._moves.plan, attempt, self._moves.ground.facts(store, attempt))
            known = self._restorable[store] = decision, self._moves.bounds.damages > 0
        return known

    def _no_ping_pong(self, store: Box[Store]) -> str | None:
        """An automatic restart follows its own driver's claim: it never fences somebody a person has started."""
        if store not in self._claims:
            documents = self._moves.ground.documents(store)
            verdict = None
            for key, document in sorted(documents.items()):
                parsed = layout.parse(key)
                if isinstance(parsed, layout.ClaimKey) and isinstance(document, w.Claimed) and document.automatic:
                    before = documents.get(layout.claim_key(Attempt(parsed.attempt - 1)))
                    if isinstance(before, w.Claimed) and before.process != document.process:
                        verdict = f"the automatic restart of {document.process} took attempt {parsed.attempt} and fenced {before.process}"
            self._claims[store] = verdict
        return self._claims[store]

    def _outcome(self, move: Move) -> str | None:
        if isinstance(move.ended, ef.Failed) and not self._moves.bounds.damages:
            return f"a coordinator gave up: {move.ended.failure.message}"
        return None
