"""Bugs between the last acknowledgement and the visible output: manifest, look, commits, notices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from tidegate.checkpoint import assembly, committing, flight, lifecycle
from tidegate.checkpoint import effects as ef
from tidegate.checkpoint import events as ev
from tidegate.checkpoint.effects import Effect
from tidegate.checkpoint.events import Event
from tidegate.checkpoint.manifest import Manifest
from tidegate.checkpoint.phases import Active, State
from tidegate.checkpoint.plan import RULE_SWITCHES, CheckpointPlan, Rules
from tidegate.checkpoint.running import Acked, Collecting, Running, Storing, Turn
from tidegate.model.ids import Attempt, CheckpointId
from tidegate.model.messages import CheckpointAborted, CheckpointCommitted, CheckpointCompleted, SubtaskAcked
from tidegate.model.snapshot import CommittablesBySink
from tidegate.operators.sink import SinkOperator
from tidegate.runtime.slot import SlotRuntime
from tidegate.testing.model.world import Bounds
from tidegate.testing.model.worlds import harmful
from tidegate.testing.mutants.mutant import Catalogue, seeds, worlds
from tidegate.testing.mutants.planting import Planting
from tidegate.testing.simulation.faults import Faults

publication = mutant = Catalogue()

CRASH = Bounds("one crash", starts=2, attempts=2, checkpoints=1, crashes=1)
TWO_CHECKPOINTS = Bounds("two checkpoints, a crash", starts=2, attempts=2, checkpoints=2, crashes=1)
RIVALS = Bounds("two drivers", starts=2, attempts=2, checkpoints=1)
LOST_ANSWER = Bounds("an answer is lost", starts=1, attempts=1, checkpoints=2, lost_answers=1)
HAND_BACK = Bounds("a sink hands back", starts=1, attempts=1, checkpoints=2, timeouts=1, hand_backs=1)
TIMEOUT = Bounds("a checkpoint times out", starts=1, attempts=1, checkpoints=2, timeouts=1)

SLOW_COMMITS = Faults(commit_fails=0.6, commit_answer_lost=0.2, driver_crash=0.25, slot_crash=0.2)
HAND_BACKS = Faults(hands_back=0.5)
GIVEN_UP = Faults(create_fails=0.3, create_answer_lost=0.2, slot_freeze=0.2)
REPEATS = Faults(message_repeated=0.3, message_delayed=0.3, slot_crash=0.3, driver_crash=0.1)


def without_rule(plant: Planting, rule: int) -> None:
    """The switch of a rule, thrown in every plan that is made."""
    switch = {RULE_SWITCHES[rule]: False}
    plant.method(Rules, "__init__", lambda original, self, **chosen: original(self, **{**chosen, **switch}))


@mutant("rule 1", "A fenced coordinator commits what its successor reads again: rows twice.", worlds(harmful(1)))
def commit_before_the_look(plant: Planting) -> None:
    without_rule(plant, 1)


@mutant("rule 1", "A newer claim written between look and manifest is overlooked: rows twice.", worlds(RIVALS))
def look_before_the_write(plant: Planting) -> None:
    def wrong(original: Any, plan: CheckpointPlan, state: State, event: Event) -> tuple[State, list[Effect]]:
        match event:
            case ev.LookAnswered(_, _, about, False) if (manifest := _unwritten(state, about)) is not None:
                return state, [ef.StoreManifest(manifest)]
            case _:
                after, effects = original(plan, state, event)
        done: list[Effect] = []
        for effect in effects:
            match effect:
                case ef.StoreManifest(manifest):
                    done.append(ef.LookForClaim(manifest.attempt, manifest.checkpoint))
                case ef.LookForClaim(attempt, about) if about is not None:
                    after, more = original(plan, after, ev.LookAnswered(event.now_ms, attempt, about, False))
                    done.extend(more)
                case _:
                    done.append(effect)
        return after, done

    plant.function(lifecycle.step, wrong)


def _unwritten(state: State, about: CheckpointId | None) -> Manifest | None:
    one = state.run.flight(about) if isinstance(state, Active) else None
    return one.manifest if isinstance(one, Storing) else None


@mutant("rule 1", "A coordinator that saw its successor goes on: rows twice.", worlds(RIVALS))
def the_answer_of_the_look_is_ignored(plant: Planting) -> None:
    def wrong(original: Any, plan: CheckpointPlan, state: State, event: Event) -> Any:
        return original(plan, state, replace(event, newer=False) if isinstance(event, ev.LookAnswered) else event)

    plant.function(lifecycle.step, wrong)


@mutant("T5, T11", "Output is visible and the driver dies before the manifest exists: rows twice.", worlds(CRASH))
def commit_before_the_manifest(plant: Planting) -> None:
    def wrong(original: Any, plan: CheckpointPlan, state: State, event: Event) -> tuple[State, list[Effect]]:
        after, effects = original(plan, state, event)
        done: list[Effect] = []
        for effect in effects:
            if isinstance(effect, ef.StoreManifest):
                manifest = effect.manifest
                done.append(ef.CommitSinks(manifest.attempt, manifest.checkpoint, manifest.committables()))
            done.append(effect)
        return after, done

    plant.function(lifecycle.step, wrong)


@mutant("rule 3", "A manifest that never landed is committed: rows twice.", worlds(harmful(3)))
def an_unknown_write_counts_as_done(plant: Planting) -> None:
    without_rule(plant, 3)


@mutant(
    "rule 3",
    "A manifest that landed unseen is restored, its transactions were aborted: rows lost.",
    worlds(LOST_ANSWER),
)
def an_unknown_write_counts_as_failed(plant: Planting) -> None:
    def wrong(original: Any, plan: CheckpointPlan, state: State, event: Event) -> tuple[State, tuple[Effect, ...]]:
        after, effects = original(plan, state, event)
        if isinstance(event, ev.ManifestUnknown) and isinstance(after, Active):
            newest = Attempt(after.run.attempt + 1)
            keep = after.run.base.committables() if after.run.base is not None else ()
            effects = (*effects, ef.SweepSinks(after.run.attempt, newest, keep))
        return after, effects

    plant.function(lifecycle.step, wrong)


@mutant("rule 4", "What an earlier checkpoint prepared is in no later manifest: rows lost.", worlds(harmful(4)))
def a_manifest_carries_only_its_own_committables(plant: Planting) -> None:
    without_rule(plant, 4)


@mutant("T6", "Output prepared for a checkpoint that timed out is thrown away: rows lost.", seeds(faults=GIVEN_UP))
def an_abort_drops_what_was_prepared(plant: Planting) -> None:
    def wrong(original: Any, self: SlotRuntime, message: Any, now_ms: float) -> None:
        original(self, message, now_ms)
        if isinstance(message, CheckpointAborted) and message.attempt == self._scope.attempt:
            for sink in _sinks(self):
                kept = (one for one in sink._committables if one.checkpoint != message.checkpoint)
                sink._committables = tuple(kept)

    plant.method(SlotRuntime, "control", wrong)


@mutant(
    "T2",
    "Slots forget output that is complete but not visible yet; the next manifest lacks it: rows lost.",
    worlds(TWO_CHECKPOINTS),
)
def the_notice_of_commits_goes_out_with_completion(plant: Planting) -> None:
    def wrong(original: Any, plan: CheckpointPlan, state: State, event: Event) -> tuple[State, list[Effect]]:
        after, effects = original(plan, state, event)
        done: list[Effect] = []
        for effect in effects:
            done.append(effect)
            if isinstance(effect, ef.SendToSlots) and isinstance(message := effect.message, CheckpointCompleted):
                done.append(ef.SendToSlots(CheckpointCommitted(attempt=message.attempt, checkpoint=message.checkpoint)))
        return after, done

    plant.function(lifecycle.step, wrong)


@mutant(
    "T2",
    "A sink forgets its committables when they are complete instead of committed: rows lost.",
    seeds(43, faults=SLOW_COMMITS),
)
def a_sink_forgets_on_completion(plant: Planting) -> None:
    def wrong(original: Any, self: SlotRuntime, message: Any, now_ms: float) -> None:
        original(self, message, now_ms)
        if isinstance(message, CheckpointCompleted) and message.attempt == self._scope.attempt:
            for sink in _sinks(self):
                sink.on_committed(message.checkpoint)

    plant.method(SlotRuntime, "control", wrong)


def _sinks(slot: SlotRuntime) -> list[SinkOperator]:
    links = (link for subtask in slot._wiring.subtasks for link in subtask.chain.links)
    return [link.operator for link in links if isinstance(link.operator, SinkOperator)]


@mutant("T32", "The timeout of a durable checkpoint aborts its transactions: rows lost.", worlds(TIMEOUT))
def a_timeout_aborts_prepared_output(plant: Planting) -> None:
    def wrong(original: Any, plan: CheckpointPlan, state: State, event: Event) -> tuple[State, tuple[Effect, ...]]:
        after, effects = original(plan, state, event)
        aborted = any(isinstance(e, ef.SendToSlots) and isinstance(e.message, CheckpointAborted) for e in effects)
        if isinstance(event, ev.ClockTicked) and aborted and isinstance(after, Active):
            newest = Attempt(after.run.attempt + 1)
            effects = (*effects, ef.SweepSinks(after.run.attempt, newest, ()))
        return after, effects

    plant.function(lifecycle.step, wrong)


@mutant(
    "T2",
    "A repeated acknowledgement stands in for one that never came: state of a subtask lost.",
    seeds(faults=REPEATS),
)
def a_repeated_acknowledgement_counts_again(plant: Planting) -> None:
    def wrong(original: Any, plan: CheckpointPlan, run: Running, ack: SubtaskAcked) -> Turn:
        one = run.flight(ack.checkpoint)
        if isinstance(one, Collecting) and any(known.subtask == ack.subtask for known in one.taken.acks):
            absent = [s for s in plan.subtasks if all(known.subtask != s for known in one.taken.acks)]
            empty = tuple(
                type(snapshot)(operator=snapshot.operator, subtask=snapshot.subtask) for snapshot in ack.snapshots
            )
            stand_in = SubtaskAcked(
                attempt=ack.attempt,
                slot=absent[0].index,
                subtask=absent[0],
                checkpoint=ack.checkpoint,
                snapshots=empty,
                times=ack.times,
            )
            return original(plan, run, stand_in)
        return original(plan, run, ack)

    plant.function(flight.on_ack, wrong)


@mutant("T58", "The manifest of a checkpoint lacks the state of the subtask that was too slow: rows lost.", seeds())
def a_checkpoint_completes_with_one_acknowledgement_missing(plant: Planting) -> None:
    def wrong(original: Any, plan: CheckpointPlan, run: Running, ack: SubtaskAcked) -> Turn:
        run, effects, leave = original(plan, run, ack)
        one = run.flight(ack.checkpoint)
        if isinstance(one, Collecting) and len(one.taken.acks) == len(plan.subtasks) - 1:
            run = run.moved(Acked(one.taken))
        return run, effects, leave

    plant.function(flight.on_ack, wrong)


@mutant("T59", "A manifest is written without an operator nobody reported: the next start finds no state.", seeds())
def a_silent_operator_is_left_out_of_the_manifest(plant: Planting) -> None:
    def wrong(original: Any, *args: Any, **named: Any) -> Manifest:
        manifest = original(*args, **named)
        first = manifest.operators[0].operator
        rest = tuple(entry for entry in manifest.operators if entry.operator != first)
        return msgspec.structs.replace(manifest, operators=rest)

    plant.function(assembly.assemble, wrong)


@mutant(
    "T35",
    "A source is told that its splits are done when the checkpoint completes, not when its output is visible: what it lets go of is lost.",
    seeds(faults=SLOW_COMMITS),
)
def splits_are_forgotten_on_completion(plant: Planting) -> None:
    def wrong(original: Any, plan: CheckpointPlan, state: State, event: Event) -> tuple[State, list[Effect]]:
        after, effects = original(plan, state, event)
        if isinstance(after, Active) and after.run.commits and isinstance(event, ev.LookAnswered):
            effects = [*effects, *committing.forgettable(after.run, after.run.commits[-1].manifest)]
        return after, effects

    plant.function(lifecycle.step, wrong)


@mutant(
    "T3",
    "What a sink handed back is forgotten: it never becomes visible, though the checkpoint is marked as committed: rows lost.",
    worlds(HAND_BACK),
)
def a_hand_back_is_forgotten(plant: Planting) -> None:
    def wrong(original: Any, plan: CheckpointPlan, state: State, event: Event) -> Any:
        if isinstance(event, ev.SinksFailed) and event.left is not None:
            event = ev.SinksCommitted(event.now_ms, event.attempt, event.checkpoint)
        return original(plan, state, event)

    plant.function(lifecycle.step, wrong)


@mutant(
    "T3",
    "Of what a sink handed back the newest checkpoint is tried first: it becomes visible before the one in front of it, rows are missing.",
    worlds(HAND_BACK),
)
def a_later_checkpoint_passes_one_that_was_handed_back(plant: Planting) -> None:
    def wrong(original: Any, owed: CommittablesBySink, left: CommittablesBySink) -> CommittablesBySink:
        rest = original(owed, left)
        return tuple((sink, tuple(one for one in some if one.checkpoint == some[-1].checkpoint)) for sink, some in rest)

    plant.function(committing.still_owed, wrong)


@mutant(
    "T3",
    "What is visible is committed again with what was handed back: while one part of a target is away, all others do everything again and again.",
    seeds(faults=HAND_BACKS),
)
def what_is_visible_is_tried_again_with_a_hand_back(plant: Planting) -> None:
    plant.function(committing.still_owed, lambda original, owed, left: owed)
