"""A PySpark streaming DataFrame → the plan of its query. Nothing below this package knows that Catalyst exists."""

from tidegate.catalyst.translate import SinkRequest, Translation, translate

__all__ = ["SinkRequest", "Translation", "translate"]
