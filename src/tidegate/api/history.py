"""The checkpoints of a pipeline, told without running it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tidegate.checkpoint import layout
from tidegate.model.errors import InvalidQuery
from tidegate.spark.history import read_history
from tidegate.storage.open import is_missing, open_store
from tidegate.storage.options import PREFIX, from_environment, storage_options


def checkpoint_history(location: str, options: Mapping[str, object] | None = None) -> list[dict[str, Any]]:
    """What ``query.checkpoints`` was when the query at this checkpoint location last wrote it down: at most 10 s ago while it runs.

    ``options``: ``storage.*``, as the query was given them; the prefix may be left out. Reads only. Raises InvalidQuery for a place
    that is no checkpoint location, ``Unavailable`` when it does not answer.
    """
    given = storage_options({_plain(name): value for name, value in (options or {}).items()})
    storage = given.over(from_environment(os.environ))
    # Opening a store makes its directory: asking about a place must not.
    if is_missing(location) or (store := open_store(location, storage, make=False)).read(layout.PIPELINE_KEY) is None:
        raise InvalidQuery(
            f"{location} is no checkpoint location",
            hint="name the directory that the query was given as option checkpointLocation",
        )
    return [record.as_dict() for record in read_history(store)]


def _plain(name: str) -> str:
    return name[len(PREFIX) :] if name.lower().startswith(PREFIX) else name
