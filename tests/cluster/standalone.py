"""A real standalone Spark cluster on this machine: one master and as many workers as a test adds, each with one core."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pyspark
from tests.e2e.scenario import wait_until

from tidegate.spark.java import ensure_java

HOST = "127.0.0.1"


class Standalone:
    """Started from the pip package. Use it as a context manager: every process of it ends with the block."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._processes: list[subprocess.Popen[bytes]] = []
        self.workers = 0
        self._launch("master", "master.Master")
        self.url = wait_until(lambda: re.search(rf"spark://{HOST}:\d+", self._log("master")), "a master").group(0)

    def __enter__(self) -> Standalone:
        return self

    def __exit__(self, *failure: object) -> None:
        family = self._family()
        for process in self._processes:
            process.kill()
            process.wait()
        for one in family:
            # Some have ended meanwhile: they are children of the others.
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()

    def add_worker(self) -> None:
        """Returns when the master knows it."""
        self.workers += 1
        work = self._place / f"work{self.workers}"
        options = ("--cores", "1", "--memory", "1g", "--work-dir", str(work), self.url)
        self._launch(f"worker{self.workers}", "worker.Worker", *options)
        wait_until(lambda: self._log("master").count("Registering worker") >= self.workers, "a registered worker")

    def executors(self) -> list[int]:
        """Processes of all executors of all applications that live."""
        return [one.pid for one in self._family() if "CoarseGrainedExecutorBackend" in command_of(one)]

    def _family(self) -> list[psutil.Process]:
        return [one for process in self._processes for one in psutil.Process(process.pid).children(recursive=True)]

    def _log(self, name: str) -> str:
        path = self._place / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def _launch(self, name: str, role: str, *options: str) -> None:
        home = Path(pyspark.__file__).parent
        environment = {
            **os.environ,
            "JAVA_HOME": ensure_java(),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_NO_DAEMONIZE": "1",
        }
        address = ("--host", HOST, "--port", "0", "--webui-port", "0")
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}", *address, *options]
        with (self._place / f"{name}.log").open("wb") as log:
            self._processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=self._place))


def command_of(process: psutil.Process) -> str:
    """Empty for one that has ended meanwhile."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""
