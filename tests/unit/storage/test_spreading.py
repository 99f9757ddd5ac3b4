"""Many objects at a time: all of them, within the bounds, and one failure ends it without leaving anything under way."""

from __future__ import annotations

import threading

import pytest

from tidegate.model.errors import Unavailable
from tidegate.storage import spreading
from tidegate.storage.spreading import AT_ONCE, delete_side_by_side, side_by_side


def test_all_are_done_and_several_at_the_same_time() -> None:
    together, done = threading.Barrier(AT_ONCE), []

    def do(key: str) -> None:
        together.wait(20)
        done.append(key)

    keys = [f"k{number}" for number in range(2 * AT_ONCE)]
    side_by_side(do, dict.fromkeys(keys, 0))
    assert sorted(done) == sorted(keys)


def test_what_is_held_at_a_time_is_bounded_and_a_larger_one_goes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spreading, "BYTES_AT_ONCE_MAX", 10)
    sizes = {"a": 5, "b": 5, "c": 99, "d": 4, "e": 4, "f": 4}
    lock, held, seen = threading.Lock(), {}, []

    def do(key: str) -> None:
        with lock:
            held[key] = sizes[key]
            seen.append(dict(held))
        threading.Event().wait(0.01)
        with lock:
            del held[key]

    side_by_side(do, sizes)
    assert {key for moment in seen for key in moment} == set(sizes)
    assert all(sum(moment.values()) <= 10 or list(moment) == ["c"] for moment in seen)


def test_after_a_failure_none_is_begun_and_none_is_under_way() -> None:
    begun, ended = [], []
    failed = threading.Event()

    def do(key: str) -> None:
        begun.append(key)
        if key == "k0":
            failed.set()
            raise Unavailable("no")
        failed.wait(20)
        ended.append(key)

    with pytest.raises(Unavailable, match="no"):
        side_by_side(do, {f"k{number}": spreading.BYTES_AT_ONCE_MAX // 2 for number in range(200)})
    assert sorted([*ended, "k0"]) == sorted(begun)
    assert len(begun) <= 3, "two have room at a time; a third one may have been let in before the failure was known"


def test_a_deletion_that_fails_is_named_and_keeps_no_other() -> None:
    gone: list[str] = []

    def delete(key: str) -> None:
        if key in ("b", "d"):
            raise Unavailable(f"{key} stays")
        gone.append(key)

    assert delete_side_by_side(delete, "abcde") == {"b": "b stays", "d": "d stays"}
    assert sorted(gone) == ["a", "c", "e"]
