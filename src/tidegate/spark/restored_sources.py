"""What the enumerators of one attempt begin with: the restored checkpoint or, for a source that it does not know, the stored decision
where that one begins."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

from tidegate.checkpoint import layout
from tidegate.checkpoint.beginning import decided, is_decided
from tidegate.checkpoint.intervals import contains
from tidegate.checkpoint.manifest import Manifest, SourceState
from tidegate.model.errors import CorruptSnapshot, InvalidQuery
from tidegate.model.ids import OperatorId
from tidegate.model.snapshot import Split
from tidegate.ports.source import SplitEnumerator
from tidegate.ports.store import BlobStore

log = logging.getLogger("tidegate")

CheckSources: TypeAlias = Callable[[Manifest, str], None]
"""Raises what the sources of a query say to the positions in a checkpoint, which may name a file, or a topic, that it does not read.
The second argument names the document."""


class RestoredSources:
    """``store``: the checkpoint location; None: nobody takes an attempt up again, and nothing is stored."""

    def __init__(self, manifest: Manifest | None, store: BlobStore | None, document: str = "") -> None:
        """``document``: what people know the manifest by, if that is not its key."""
        self._manifest = manifest
        self._document = document or (layout.manifest_key(manifest.ref) if manifest else "")
        self._store = store
        self._states = {state.operator: state for state in manifest.sources} if manifest else {}

    def restore(self, operator: OperatorId, enumerator: SplitEnumerator, now_ms: int) -> tuple[Split, ...]:
        """Everything that is known of the source before the first look. Raises ``TidegateError``; one about what is stored names the
        source and the document."""
        state = self._states.get(operator)
        if state is not None and is_decided(state):
            with _named(operator, self._document):
                return _restore(enumerator, state)
        if self._store is None or enumerator.asked is None:
            return ()
        key, beginning = decided(
            self._store, operator, self._manifest, enumerator.asked, partial(enumerator.begin, now_ms)
        )
        log.debug("%s begins where %s says", operator, key)
        with _named(operator, key):
            return enumerator.restore(beginning.enumerator, ())


def _restore(enumerator: SplitEnumerator, state: SourceState) -> tuple[Split, ...]:
    enumerator.learn_done(lambda number: contains(state.done, number))
    return enumerator.restore(state.enumerator, tuple(position.split for position in state.open))


@contextmanager
def _named(operator: OperatorId, document: str) -> Iterator[None]:
    try:
        yield
    except (CorruptSnapshot, InvalidQuery) as error:
        raise type(error)(f"{operator} in {document}: {error.message}", hint=error.hint) from error
