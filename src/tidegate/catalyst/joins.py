"""Joins: of two streams, or of a stream with static data."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.catalyst.context import Context
from tidegate.catalyst.java import Java
from tidegate.catalyst.naming import Relation
from tidegate.catalyst.static_joins import join_sides, static_join
from tidegate.catalyst.stream_joins import stream_join


def join(context: Context, plan: Java, relation: Callable[[Context, Java], Relation]) -> Relation:
    """``relation`` converts a streaming input."""
    left, right = plan.left(), plan.right()
    if left.isStreaming() and right.isStreaming():
        return stream_join(context, plan, relation(context, left), relation(context, right))
    stream, static, kind = join_sides(plan)
    return static_join(context, plan, relation(context, stream), static, kind)
