"""Explicit-state model check of the publication protocol: the real ``step`` in every small world that can happen."""
