"""Many objects at the same time, within bounds: copies of a savepoint, deletions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from tidegate.model.errors import TidegateError

AT_ONCE = 8
BYTES_AT_ONCE_MAX = 256 << 20
"""Of what is held in memory at a time; one object may be larger, alone."""


def side_by_side(do: Callable[[str], object], sizes_bytes: Mapping[str, int]) -> None:
    """``do`` for every key, several at a time, begun in their order; ``do`` holds as many bytes as the key maps to.

    When one fails none is begun any more; those under way are waited for, and what failed first is raised.
    """
    if len(sizes_bytes) <= 1:
        for key in sizes_bytes:
            do(key)
        return
    changed = threading.Condition()
    held_bytes = 0
    failures: list[BaseException] = []

    def run(key: str) -> None:
        nonlocal held_bytes
        failure: BaseException | None = None
        try:
            # One that waited for a thread while another failed.
            if not failures:
                do(key)
        except BaseException as error:  # noqa: BLE001  it is raised again below, for whoever asked
            failure = error
        with changed:
            held_bytes -= sizes_bytes[key]
            failures.extend([failure] if failure is not None else [])
            changed.notify_all()

    def has_room(size_bytes: int) -> bool:
        return bool(failures) or not held_bytes or held_bytes + size_bytes <= BYTES_AT_ONCE_MAX

    with ThreadPoolExecutor(min(AT_ONCE, len(sizes_bytes)), "tidegate-objects") as threads:
        for key, size_bytes in sizes_bytes.items():
            with changed:
                changed.wait_for(lambda size_bytes=size_bytes: has_room(size_bytes))
                if failures:
                    break
                held_bytes += size_bytes
            threads.submit(run, key)
    if failures:
        raise failures[0]


def delete_side_by_side(delete: Callable[[str], None], keys: Sequence[str]) -> dict[str, str]:
    """Those that could not be deleted, with the reason: one of them does not keep the others."""
    problems: dict[str, str] = {}

    def noting(key: str) -> None:
        try:
            delete(key)
        except TidegateError as error:
            problems[key] = error.message

    side_by_side(noting, dict.fromkeys(keys, 0))
    return problems
