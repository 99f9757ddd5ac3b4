"""Which versions a process runs. Driver and slots must agree: they exchange pickled plans, Arrow data and stored state."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

from tidegate.model.errors import InvalidQuery

PACKAGES = ("tidegate", "polars", "pyarrow", "numpy")


def running_versions() -> dict[str, str]:
    """Package → version, of this process; Python by its minor version, which is what pickled code depends on."""
    versions = {"python": ".".join(platform.python_version_tuple()[:2])}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    return versions


def refuse_other_versions(driver: dict[str, str], slots: Iterable[tuple[str, dict[str, str]]]) -> None:
    """Raises InvalidQuery that names both versions and the host, for the first slot that differs."""
    for host, versions in slots:
        for package, wanted in driver.items():
            found = versions.get(package, "not installed")
            if found != wanted:
                raise InvalidQuery(
                    f"the driver runs {package} {wanted}, the executor on {host} runs {package} {found}",
                    hint=f"install {package} {wanted} on every executor, or ship one environment to all "
                    "(spark.archives with venv-pack, PYSPARK_PYTHON)",
                )
