"""Large results leave in pieces, so that back-pressure can act between them."""

from __future__ import annotations

from collections.abc import Iterator

PIECE_ROWS = 1 << 15


def pieces(rows: int) -> Iterator[slice]:
    """Slices of at most ``PIECE_ROWS`` that make up ``rows``."""
    for start in range(0, rows, PIECE_ROWS):
        yield slice(start, start + PIECE_ROWS)
