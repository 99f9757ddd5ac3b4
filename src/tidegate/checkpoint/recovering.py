"""The steps of a recovery: claim → list → choose → write ``restored`` → look → commit → sweep. Whatever stays unknown is asked
for again; nothing outside is touched before the look."""

from __future__ import annotations

from dataclasses import replace

from tidegate.checkpoint import committing, ending, marking, restart, retention, sources, trigger
from tidegate.checkpoint import effects as ef
from tidegate.checkpoint.effects import Effect
from tidegate.checkpoint.ending import Step
from tidegate.checkpoint.events import Failure, SinksFailed
from tidegate.checkpoint.manifest import Manifest, Restored
from tidegate.checkpoint.marking import Marking
from tidegate.checkpoint.numbering import numbering_of
from tidegate.checkpoint.orders import NO_ORDERS
from tidegate.checkpoint.phases import (
    Claiming,
    CommittingRestored,
    Deploying,
    Listing,
    LookingFirst,
    Retry,
    Session,
    Sweeping,
    WritingRestored,
)
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.recovery import Choice
from tidegate.checkpoint.running import Running
from tidegate.checkpoint.savepoint import without_committables
from tidegate.model.errors import Bug, Unavailable
from tidegate.model.ids import Attempt

NEWEST_POSSIBLE = Attempt(1 << 40)


def claim(session: Session, attempt: Attempt, *, automatic: bool) -> Step:
    return Claiming(session, attempt, automatic), (ef.WriteClaim(attempt, session.process),)


def list_location(session: Session, attempt: Attempt) -> ef.ListLocation:
    return ef.ListLocation(attempt, verify_chunks=session.accept_duplicates, ask_targets=not session.compared)


def document(attempt: Attempt, choice: Choice) -> Restored:
    chosen = choice.manifest
    restored = None if chosen is None else (chosen.checkpoint, chosen.attempt)
    return Restored(attempt=attempt, checkpoint=restored, accepted=choice.accepted, batches_lost=choice.batches_lost)


def write_restored(state: WritingRestored) -> ef.WriteRestored:
    return ef.WriteRestored(state.attempt, document(state.attempt, state.choice), state.choice.notes)


def restored_stands(plan: CheckpointPlan, state: WritingRestored, now_ms: int) -> Step:
    if not plan.rules.look_before_effects:
        return act(plan, state.session, state.attempt, state.choice, now_ms)
    looking = LookingFirst(state.session, state.attempt, state.choice)
    return looking, (ef.LookForClaim(state.attempt, None),)


def act(plan: CheckpointPlan, session: Session, attempt: Attempt, choice: Choice, now_ms: int) -> Step:
    """The look found nobody: repeat the commits of the restored checkpoint, or go on when there are none. Output that a marker calls
    visible is not committed again: whoever set its target back may not want it there, and the target may have forgotten it."""
    manifest = choice.manifest
    if manifest is None or choice.published or not manifest.committables():
        return sweep(plan, session, attempt, choice)
    return commit_restored(plan, CommittingRestored(session, attempt, choice), manifest, now_ms)


def commit_restored(plan: CheckpointPlan, state: CommittingRestored, manifest: Manifest, now_ms: int) -> Step:
    """Ask the sinks, again if they do not answer or handed some back; then the attempt has failed."""
    tries = state.retry.tries + 1
    timeout_ms = plan.config.commit_timeout_ms
    if tries > committing.TRIES_MAX:
        failure = committing.not_visible(manifest.checkpoint, state.owed, committing.unanswered(timeout_ms))
        return ending.without_slots(plan, state.session, state.attempt, now_ms, failure)
    commit = ef.CommitSinks(
        state.attempt,
        manifest.checkpoint,
        state.owed,
        numbering=numbering_of(manifest),
    )
    return replace(state, retry=Retry(tries, now_ms + timeout_ms), pausing=False), (commit,)


def restored_visible(
    plan: CheckpointPlan, session: Session, attempt: Attempt, choice: Choice, manifest: Manifest
) -> Step:
    """All sinks confirmed: that is recorded, and the sweep begins."""
    recording, mark = marking.begin(manifest.ref)
    sweeping, effects = sweep(plan, session, attempt, choice, recording)
    return sweeping, (*mark, *effects)


def restored_not_visible(
    plan: CheckpointPlan, state: CommittingRestored, manifest: Manifest, failed: SinksFailed
) -> Step:
    """What the sinks left is tried again after a pause if they have done any of it. If not, the attempt has failed, and the next one
    begins with all that the manifest carries."""
    owed = state.owed if failed.left is None else committing.still_owed(state.owed, failed.left)
    if not owed and failed.left is not None:
        return restored_visible(plan, state.session, state.attempt, state.choice, manifest)
    tries = state.retry.tries
    if owed == state.owed or not failed.failure.retryable or tries >= committing.TRIES_MAX:
        stuck = committing.not_visible(manifest.checkpoint, owed, failed.failure)
        return ending.without_slots(plan, state.session, state.attempt, failed.now_ms, stuck)
    retry = Retry(tries, failed.now_ms + committing.pause_ms(tries))
    return replace(state, retry=retry, left=owed, pausing=True), ()


def sweep(
    plan: CheckpointPlan, session: Session, attempt: Attempt, choice: Choice, marking: Marking | None = None
) -> Step:
    keep = choice.manifest.committables() if choice.manifest is not None else ()
    # However late this lands, it can only touch attempts that our claim has fenced already.
    older_than = attempt if plan.rules.late_is_harmless else NEWEST_POSSIBLE
    aborts = ef.SweepSinks(attempt, older_than, keep, numbering=choice.numbering)
    sweeping, effects = Sweeping(session, attempt, choice, marking=marking), (aborts,)
    if not is_over(plan, session, choice):
        return sweeping, effects
    left = retention.from_lineage(choice.lineage, choice.garbage).plan_round(
        plan.config.checkpoints_retained, by_reference=plan.rules.retention_by_reference
    )
    if not left.garbage:
        return sweeping, effects
    delete = ef.Delete(attempt, left.garbage, plan.config.cleanup_timeout_ms)
    return replace(sweeping, cleaned=False), (*effects, delete)


def swept(plan: CheckpointPlan, state: Sweeping, now_ms: int) -> Step:
    """Deploys, or says that there is nothing left to do."""
    if not (state.swept and state.cleaned):
        return state, ()
    if is_over(plan, state.session, state.choice):
        return ending.undeployed(plan, state, now_ms, ef.Finished())
    # All that it carries is visible by now: nobody hands it on, so that no later commit brings it to a target that was set back.
    manifest = None if state.choice.manifest is None else without_committables(state.choice.manifest)
    run = prepare(plan, state.session, state.attempt, state.choice)
    return Deploying(state.session, replace(run, base=manifest, marking=state.marking)), (
        ef.Deploy(state.attempt, manifest),
    )


def prepare(plan: CheckpointPlan, session: Session, attempt: Attempt, choice: Choice) -> Running:
    """The attempt as it will begin: splits, numbers and retention rebuilt from the manifest alone."""
    states = {state.operator: state for state in choice.manifest.sources} if choice.manifest is not None else {}
    return Running(
        attempt=attempt,
        base=choice.manifest,
        next_checkpoint=max(choice.next_checkpoint, session.next_checkpoint),
        trigger=trigger.Trigger(0),
        sources=tuple(sources.at_start(plan, operator, states.get(operator)) for operator in plan.sources),
        retention=retention.from_lineage(choice.lineage, choice.garbage),
        restarts=session.restarts,
        numbering=choice.numbering,
    )


def is_over(plan: CheckpointPlan, session: Session, choice: Choice) -> bool:
    """The pipeline was drained: all windows are closed, and whatever was read now would be dropped as late.

    Its last output is visible, so there is nothing left to do. Going on is for a start from a drained savepoint at a new location.
    """
    ended = choice.manifest is not None and choice.manifest.ends_pipeline
    return ended and plan.event_time and session.orders == NO_ORDERS


def retry_later(
    plan: CheckpointPlan,
    state: Claiming | Listing | WritingRestored | LookingFirst,
    now_ms: int,
    what: str,
    failure: Failure | None = None,
) -> Step:
    """The outcome is unknown: the same effect is asked for again, until the answer is certain or patience ends."""
    if failure is not None and not failure.retryable:
        return ending.over(ef.Failed(failure), state.session)
    tries = state.retry.tries + 1
    if tries > plan.config.restart_attempts_max:
        last = failure or Failure(Unavailable.code, f"the store did not answer {tries} times: {what}")
        return ending.over(ef.Failed(replace(last, retryable=False)), state.session)
    return replace(state, retry=Retry(tries, now_ms + restart.delay_ms(plan.config, tries - 1))), ()


def outstanding(state: Claiming | Listing | WritingRestored | LookingFirst) -> Effect:
    match state:
        case Claiming(session, attempt):
            return ef.WriteClaim(attempt, session.process)
        case Listing(session, attempt):
            return list_location(session, attempt)
        case WritingRestored():
            return write_restored(state)
        case LookingFirst(_, attempt):
            return ef.LookForClaim(attempt, None)


def foreign_restored(attempt: Attempt) -> Failure:
    return Failure(
        Bug.code,
        f"attempt {attempt} has written another restore point than the one it chose",
        hint="please report it with the log of the driver",
        retryable=False,
    )
