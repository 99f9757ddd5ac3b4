from __future__ import annotations

import pytest

from tidegate.model.errors import InvalidQuery
from tidegate.spark.versions import refuse_other_versions, running_versions


def test_equal_versions_pass():
    refuse_other_versions(running_versions(), [("a", running_versions()), ("b", running_versions())])


@pytest.mark.parametrize(("package", "found"), [("python", "3.9"), ("polars", "1.0.0"), ("tidegate", None)])
def test_another_version_on_an_executor_is_refused_naming_both_and_the_host(package, found):
    mine = running_versions()
    theirs = {name: version for name, version in mine.items() if name != package} | ({package: found} if found else {})
    with pytest.raises(InvalidQuery) as refused:
        refuse_other_versions(mine, [("good", mine), ("worker-7", theirs)])
    for part in ("worker-7", package, mine[package], found or "not installed"):
        assert part in refused.value.message
