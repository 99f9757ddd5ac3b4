"""What a table remembers, from what stands in it: attempts and checkpoints, or the numbers alone that earlier versions stored."""

from __future__ import annotations

import pytest

from tidegate.connectors.lake.memory import is_newer, newest, prepared_for, remembered
from tidegate.model.ids import Attempt, CheckpointId
from tidegate.model.snapshot import Published


def published(attempt: int, checkpoint: int) -> Published:
    return Published(Attempt(attempt), CheckpointId(checkpoint))


@pytest.mark.parametrize(
    ("number", "both", "says"),
    [
        (None, None, None),
        (5, None, published(0, 5)),
        (5, published(3, 5), published(3, 5)),
        (None, published(3, 5), published(3, 5)),
        (6, published(3, 5), published(0, 6)),
        (4, published(3, 5), published(0, 4)),
    ],
)
def test_an_attempt_counts_as_long_as_both_names_tell_the_same_number(
    number: int | None, both: Published | None, says: Published | None
) -> None:
    """An earlier version that commits in between writes the number alone."""
    assert remembered(number, both) == says


def test_of_several_memories_the_newest_counts() -> None:
    assert newest([]) is None
    assert newest([published(0, 3), published(0, 7)]) == published(0, 7)
    assert newest([published(2, 4), published(1, 9)]) == published(2, 4)
    assert newest([published(0, 3), published(2, 4)]) == published(2, 4)
    assert newest([published(0, 9), published(2, 4)]) == published(0, 9), "an earlier version has committed since"


def test_output_is_newer_by_attempt_and_checkpoint_where_both_are_known() -> None:
    """T73: a number that a later attempt was given again is not taken for done."""
    assert is_newer(published(1, 1), None)
    assert is_newer(published(3, 4), published(2, 9)) and not is_newer(published(1, 12), published(2, 9))
    assert not is_newer(published(2, 9), published(2, 9))
    assert is_newer(published(3, 10), published(0, 9)) and not is_newer(published(3, 9), published(0, 9))
    assert is_newer(published(0, 10), published(2, 9)) and not is_newer(published(0, 9), published(2, 9))


def test_the_names_of_its_notes_say_which_attempt_prepared_a_committable() -> None:
    assert prepared_for(CheckpointId(7), ("000012-00000-000003", "000012-00000-000004")) == published(12, 7)
    assert prepared_for(CheckpointId(7), ()) == published(0, 7)
    assert prepared_for(CheckpointId(7), ("something else",)) == published(0, 7)
