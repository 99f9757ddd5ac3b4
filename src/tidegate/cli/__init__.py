"""The ``tidegate`` command."""
