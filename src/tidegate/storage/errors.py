"""Why a store did not do what it was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.model.errors import InvalidQuery, Unavailable


class Refused(Unavailable):
    """The store answered and said no: a wrong or revoked key, a missing bucket, no permission.

    While a query runs this may pass (a key is renewed, a permission given back), so it is tried again like any other trouble; at
    a start it is the user's mistake.
    """


@contextmanager
def mistakes_told() -> Iterator[None]:
    """Nothing runs yet: what a store refuses is better told now than tried again and again."""
    try:
        yield
    except Refused as refusal:
        raise InvalidQuery(refusal.message, hint=refusal.hint) from refusal
