"""HDFS itself on 127.0.0.1: one NameNode and its DataNodes in one JVM, from Maven's jars.

::

    with hdfs_cluster(tmp_path) as hdfs:
        store = open_store(f"{hdfs.uri}/checkpoints/q1")
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.servers.jars import jars
from tests.servers.processes import die_with_parent, free_ports

UP_SECONDS_MAX = 180.0
_POM = Path(__file__).with_name("hdfs-pom.xml")
_PROPERTIES = {
    "dfs.replication": "2",
    # A file that two DataNodes hold may be closed before they have reported its last block: else every small file takes 0.5 s.
    "dfs.namenode.file.close.num-committed-allowed": "1",
    # A NameNode that watches its disks for 30 s before it lets anybody write has nothing to watch here.
    "dfs.namenode.safemode.extension": "0",
}


class Hdfs:
    """A running cluster. Files are owned by whoever the client says it is: there is no Kerberos."""

    def __init__(self, directory: Path, properties: Mapping[str, str], datanodes: int) -> None:
        self.directory = directory
        self.log = directory / "hdfs.log"
        directory.mkdir(parents=True, exist_ok=True)
        (self.port,) = free_ports(1)
        self.uri = f"hdfs://127.0.0.1:{self.port}"
        details = directory / "details.json"
        set_ones = [argument for one in (_PROPERTIES | dict(properties)).items() for argument in ("-D", "=".join(one))]
        flags = [
            "-Xmx384m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "--add-opens=java.base/java.lang=ALL-UNNAMED",
        ]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(
                        "java",
                        *flags,
                        f"-Dtest.build.data={directory / 'data'}",
                        "-cp",
                        f"{jars('hdfs-3.5.0', _POM)}/*",
                    ),
                    *("org.apache.hadoop.test.MiniDFSClusterManager", "-format", "-datanodes", str(datanodes)),
                    *("-nnport", str(self.port), "-writeDetails", str(details), *set_ones),
                ],
                cwd=directory,
                env={name: value for name, value in os.environ.items() if not name.startswith("HADOOP")},
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
            )
        self._wait(details)

    def _wait(self, details: Path) -> None:
        until = time.monotonic() + UP_SECONDS_MAX
        while not self._is_up(details):
            if self._process.poll() is not None:
                raise RuntimeError(f"HDFS ended while starting; its log ends with\n{self._tail()}")
            if time.monotonic() > until:
                self.close()
                raise TimeoutError(f"HDFS is not up after {UP_SECONDS_MAX} s; its log ends with\n{self._tail()}")
            time.sleep(0.05)

    def _is_up(self, details: Path) -> bool:
        """The cluster writes its details when every DataNode has reported."""
        with contextlib.suppress(OSError, ValueError):
            return bool(json.loads(details.read_text()))
        return False

    def set_space_quota(self, path: str, size_bytes: int | None) -> None:
        """How much a directory may hold, all copies of a block counted; None: whatever there is room for."""
        quota = ["-clrSpaceQuota"] if size_bytes is None else ["-setSpaceQuota", str(size_bytes)]
        tool = ["org.apache.hadoop.hdfs.tools.DFSAdmin", "-fs", self.uri, *quota, path]
        flags = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{jars('hdfs-3.5.0', _POM)}/*"]
        done = subprocess.run(["java", *flags, *tool], capture_output=True, text=True, timeout=UP_SECONDS_MAX)
        if done.returncode:
            raise RuntimeError(f"the quota of {path} cannot be set: {done.stderr[-3000:]}")

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]


@contextlib.contextmanager
def hdfs_cluster(directory: Path, *, properties: Mapping[str, str] | None = None, datanodes: int = 2) -> Iterator[Hdfs]:
    """A running cluster with its data under ``directory``; ``properties``: of Hadoop. It is gone afterwards."""
    cluster = Hdfs(directory, properties or {}, datanodes)
    try:
        yield cluster
    finally:
        cluster.close()
