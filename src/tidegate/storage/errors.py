"""Why a store did not do what it was asked for."""

from __future__ import annotations

from tidegate.model.errors import Unavailable


class Refused(Unavailable):
    """The store answered and said no: a wrong or revoked key, a missing bucket, no permission.

    While a query runs this may pass (a key is renewed, a permission given back), so it is tried again like any other trouble; at
    a start it is the user's mistake.
    """
