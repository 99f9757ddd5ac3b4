"""Where this process may keep files for a while."""

from __future__ import annotations

import os
import tempfile


def scratch_directory() -> str:
    """Spark's directory for the application, which it removes with it; outside of Spark the system's."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
