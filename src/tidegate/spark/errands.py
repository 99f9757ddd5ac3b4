"""What the coordinator asked the outside to do, in words: which effect begins an errand, which event ends it."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.checkpoint import effects as fx
from tidegate.checkpoint import events as ev

DEPLOY = "deploy"
LEAVE = "leave"


@dataclass(frozen=True, slots=True)
class Errand:
    """Something the outside was asked to do and has not done yet."""

    words: str
    since_ms: int
    """Of the first try."""
    tries: int = 1
    trouble: str = ""
    """What the last try came to."""


def asked_by(effect: fx.Effect) -> tuple[str, str] | None:
    """Under which name an effect that the outside has to answer is remembered, and what it is in words."""
    match effect:
        case fx.WriteClaim(attempt):
            return "claim", f"writing the claim of attempt {attempt}"
        case fx.ListLocation():
            return "list", "reading the checkpoint location"
        case fx.WriteRestored(attempt):
            return "restored", f"writing down what attempt {attempt} restores"
        case fx.LookForClaim(_, about):
            return f"look {about}", "asking the store for a newer attempt"
        case fx.StoreManifest(manifest):
            return f"store {manifest.checkpoint}", f"storing the manifest of checkpoint {manifest.checkpoint}"
        case fx.CommitSinks(_, checkpoint):
            return f"commit {checkpoint}", f"committing the output of checkpoint {checkpoint}"
        case fx.SweepSinks():
            return "sweep", "sweeping what older attempts prepared"
        case fx.Delete(_, keys):
            return "cleanup", f"deleting {len(keys)} old files from the checkpoint location"
        case fx.ExportSavepoint(_, manifest, target):
            return f"export {manifest.checkpoint}", f"exporting a savepoint to {target}"
        case _:
            return None


def answered_by(event: ev.Event) -> tuple[str, str] | None:
    """Which errand the event answers, and what was wrong with it; no words: it is done."""
    match event:
        case ev.ClaimWritten() | ev.ClaimRefused():
            return "claim", ""
        case ev.ClaimUnknown():
            return "claim", "the store did not answer"
        case ev.LocationListed():
            return "list", ""
        case ev.ListingFailed(failure=failure):
            return "list", first_line(failure)
        case ev.RestoredWritten() | ev.RestoredRefused():
            return "restored", ""
        case ev.RestoredUnknown():
            return "restored", "the store did not answer"
        case ev.LookAnswered(about=about):
            return f"look {about}", ""
        case ev.LookFailed(about=about):
            return f"look {about}", "the store did not answer"
        case ev.ManifestStored(ref=ref) | ev.ManifestRefused(ref=ref):
            return f"store {ref.checkpoint}", ""
        case ev.ManifestUnknown(ref=ref):
            return f"store {ref.checkpoint}", "the store did not answer"
        case ev.SinksCommitted(checkpoint=checkpoint):
            return f"commit {checkpoint}", ""
        case ev.SinksFailed(checkpoint=checkpoint, failure=failure):
            return f"commit {checkpoint}", first_line(failure)
        case ev.SinksSwept():
            return "sweep", ""
        case ev.CleanupDone():
            return "cleanup", ""
        case ev.SavepointExported(checkpoint=checkpoint) | ev.SavepointFailed(checkpoint=checkpoint):
            return f"export {checkpoint}", ""
        case ev.SlotsReady():
            return DEPLOY, ""
        case ev.SlotsFree():
            return LEAVE, ""
        case _:
            return None


def first_line(failure: ev.Failure) -> str:
    """What people look for first: of a traceback that is its last line."""
    lines = [line for line in failure.message.splitlines() if line.strip()]
    if lines and lines[0].startswith("Traceback"):
        return next((line for line in lines[1:] if not line.startswith((" ", "\t"))), lines[0])
    return lines[0] if lines else failure.code
