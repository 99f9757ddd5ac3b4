"""The one place that knows how storage keys look. Keys are relative to the checkpoint location, with ``/`` between parts.

::

    pipeline.json                        random pipeline id, max parallelism, plan fingerprint
    attempts/000008/claim                attempt 8 claims the pipeline
    attempts/000008/restored             what it restores: (checkpoint, attempt) or nothing
    state/<operator>/<chunk>             immutable; shared by any number of manifests
    state/static/t<digest>               part of a static table, named by its content; no manifest names it
    checkpoints/000042-000007/manifest   exists ⇔ checkpoint 42 of attempt 7 is complete
    checkpoints/000042-000007/committed  its sink commits are done
    begin/<source>/000042-000007-<asked>  where a source that checkpoint 42 does not know begins; 000000-000000: from the very start
    history/000017                       statistics of the last checkpoints, for people; replaced by the next number
    batches/<sink>/waiting/<attempt>-<subtask>-<n>    rows or messages that wait for code of the user on the driver
    batches/<sink>/done/000042-000007    that code has been through checkpoint 42 of attempt 7
    probe/<random>                       left by the probe of a store, deleted at once

Attempt 0 is no attempt: its one manifest and its chunks were imported at the first start.

A savepoint is a directory of its own, with ``state/`` as above and::

    savepoint                            exists ⇔ the savepoint is complete
"""

from __future__ import annotations

import re
from typing import NamedTuple, TypeAlias

from tidegate.model.errors import CorruptSnapshot
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex

PIPELINE_KEY = "pipeline.json"
ATTEMPTS_PREFIX = "attempts/"
CHECKPOINTS_PREFIX = "checkpoints/"
STATE_PREFIX = "state/"
STATIC_PREFIX = "state/static/t"
BEGIN_PREFIX = "begin/"
HISTORY_PREFIX = "history/"
BATCHES_PREFIX = "batches/"
PROBE_PREFIX = "probe/"
SAVEPOINT_KEY = "savepoint"

IMPORTED = Attempt(0)
"""In whose name imported files stand; attempts count from 1."""

_CLAIM = re.compile(r"attempts/(\d{6,})/claim")
_RESTORED = re.compile(r"attempts/(\d{6,})/restored")
_MANIFEST = re.compile(r"checkpoints/(\d{6,})-(\d{6,})/manifest")
_COMMITTED = re.compile(r"checkpoints/(\d{6,})-(\d{6,})/committed")
_CHUNK = re.compile(r"state/([^/]+/(\d{6,})-[^/]+)")
_CHUNK_NAME = re.compile(r"[^/]+/(\d{6,})-\d{5,}-(\d{6,})-\d+")
_BEGIN = re.compile(r"begin/[^/]+/(\d{6,})-(\d{6,})-([0-9a-f]{8})")
_HISTORY = re.compile(r"history/(\d{6,})")
_WAITING = re.compile(r"batches/[^/]+/waiting/(\d{6,})-(\d{5,})-(\d{6,})")
_DONE = re.compile(r"batches/[^/]+/done/(\d{6,})-(\d{6,})")
_CHECKPOINT_PATH = re.compile(r"(.*)/checkpoints/(\d{6,})-(\d{6,})/*", re.DOTALL)
_SAFE_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.=-]*")


class ManifestRef(NamedTuple):
    """A checkpoint and the attempt that took it. Orders by checkpoint first; two attempts may use one number."""

    checkpoint: CheckpointId
    attempt: Attempt

    def __str__(self) -> str:
        return f"{self.checkpoint} of attempt {self.attempt}"


class ClaimKey(NamedTuple):
    attempt: Attempt


class RestoredKey(NamedTuple):
    attempt: Attempt


class ManifestKey(NamedTuple):
    ref: ManifestRef


class CommittedKey(NamedTuple):
    ref: ManifestRef


class ChunkKey(NamedTuple):
    name: str
    attempt: Attempt
    """The attempt that wrote it."""


Key: TypeAlias = ClaimKey | RestoredKey | ManifestKey | CommittedKey | ChunkKey


def claim_key(attempt: Attempt) -> str:
    return f"attempts/{attempt:06d}/claim"


def restored_key(attempt: Attempt) -> str:
    return f"attempts/{attempt:06d}/restored"


def manifest_key(ref: ManifestRef) -> str:
    return f"checkpoints/{ref.checkpoint:06d}-{ref.attempt:06d}/manifest"


def committed_key(ref: ManifestRef) -> str:
    return f"checkpoints/{ref.checkpoint:06d}-{ref.attempt:06d}/committed"


def begin_key(source: OperatorId, base: ManifestRef, asked: str) -> str:
    """``base``: the checkpoint from which the query goes on. ``asked``: digest of what the user's options say about the beginning.
    No part of ``Key``: recovery never looks at it, and nobody deletes it."""
    return f"{BEGIN_PREFIX}{source}/{base.checkpoint:06d}-{base.attempt:06d}-{asked}"


def begin_base(key: str, asked: str) -> ManifestRef | None:
    """The checkpoint of a decision with the same ``asked``; None for any other key."""
    match = _BEGIN.fullmatch(key)
    return ManifestRef(CheckpointId(int(match[1])), Attempt(int(match[2]))) if match and match[3] == asked else None


def history_key(number: int) -> str:
    return f"{HISTORY_PREFIX}{number:06d}"


def history_number(key: str) -> int | None:
    """Of a segment of the history; None for any other key. No part of ``Key``: recovery and retention never look at it."""
    match = _HISTORY.fullmatch(key)
    return int(match[1]) if match else None


def waiting_key(sink: OperatorId, attempt: Attempt, subtask: SlotIndex, number: int) -> str:
    """Unique by construction as long as a subtask never gives a number twice. No part of ``Key``: the sink itself cleans up."""
    return f"{BATCHES_PREFIX}{sink}/waiting/{attempt:06d}-{subtask:05d}-{number:06d}"


def waiting_origin(key: str) -> tuple[Attempt, SlotIndex, int] | None:
    match = _WAITING.fullmatch(key)
    return (Attempt(int(match[1])), SlotIndex(int(match[2])), int(match[3])) if match else None


def done_key(sink: OperatorId, ref: ManifestRef) -> str:
    return f"{BATCHES_PREFIX}{sink}/done/{ref.checkpoint:06d}-{ref.attempt:06d}"


def done_ref(key: str) -> ManifestRef | None:
    match = _DONE.fullmatch(key)
    return ManifestRef(CheckpointId(int(match[1])), Attempt(int(match[2]))) if match else None


def chunk_name(
    operator: OperatorId, attempt: Attempt, subtask: SlotIndex, checkpoint: CheckpointId, number: int
) -> str:
    """The name a slot gives a new chunk. Unique by construction: no other attempt, subtask or checkpoint can form it."""
    return f"{operator}/{attempt:06d}-{subtask:05d}-{checkpoint:06d}-{number}"


def chunk_key(name: str) -> str:
    """Where the chunk ``name`` lies. A name that would leave the location is refused: manifests are input, too."""
    parts = name.split("/")
    if len(parts) != 2 or not all(_SAFE_PART.fullmatch(part) for part in parts):
        raise CorruptSnapshot(
            f"a manifest names the chunk {name!r}, which is no chunk of this location",
            hint="the manifest was not written by Tidegate: restore an older checkpoint",
        )
    return STATE_PREFIX + name


def chunk_origin(name: str) -> ManifestRef | None:
    """The checkpoint and attempt that wrote the chunk, from its name; None when the name is not one of ours."""
    match = _CHUNK_NAME.fullmatch(name)
    return ManifestRef(CheckpointId(int(match[2])), Attempt(int(match[1]))) if match else None


def checkpoint_path(path: str) -> tuple[str, ManifestRef] | None:
    """The location and the checkpoint that a path like ``/data/q1/checkpoints/000042-000007`` names; None for any other."""
    match = _CHECKPOINT_PATH.fullmatch(path)
    return (match[1] or "/", ManifestRef(CheckpointId(int(match[2])), Attempt(int(match[3])))) if match else None


def parse(key: str) -> Key | None:
    """What a listed key is; None for anything Tidegate did not write (never read, never deleted)."""
    if match := _CLAIM.fullmatch(key):
        return ClaimKey(Attempt(int(match[1])))
    if match := _RESTORED.fullmatch(key):
        return RestoredKey(Attempt(int(match[1])))
    if match := _MANIFEST.fullmatch(key):
        return ManifestKey(ManifestRef(CheckpointId(int(match[1])), Attempt(int(match[2]))))
    if match := _COMMITTED.fullmatch(key):
        return CommittedKey(ManifestRef(CheckpointId(int(match[1])), Attempt(int(match[2]))))
    if match := _CHUNK.fullmatch(key):
        return ChunkKey(match[1], Attempt(int(match[2])))
    return None
