"""PySpark's worker daemon with most imports of a slot done once, before it forks: slots are up in half the time.

Chosen with ``spark.python.daemon.module=tidegate.spark.daemon``, as ``local_session`` does; everything works without it. Polars is
not among them: its import starts a thread, and threads do not survive a fork.
"""

from __future__ import annotations

from importlib import import_module

PRELOADED = ("msgspec", "numpy", "pyarrow.ipc", "pyarrow.parquet", "pyspark.sql", "pyspark.worker", "zmq")

if __name__ == "__main__":
    for module in PRELOADED:
        import_module(module)
    import_module("pyspark.daemon").manager()
