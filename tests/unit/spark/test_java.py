from __future__ import annotations

import subprocess

import pytest

from tidegate.model.errors import InvalidQuery
from tidegate.spark import java


def fake_java(home, version: str):
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    command.chmod(0o755)
    return home


def test_a_new_enough_java_home_is_taken(tmp_path, monkeypatch):
    home = fake_java(tmp_path / "new", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.ensure_java() == str(home)


def test_an_old_java_is_refused_by_its_version_with_the_way_out(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "1.8.0_392")))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InvalidQuery, match="Java 8") as refused:
        java.ensure_java()
    assert "tidegate[java]" in refused.value.hint


def test_the_wrapper_drops_the_missing_module_and_nothing_else(tmp_path):
    echo = tmp_path / "echo"
    echo.write_text('#!/bin/sh\nfor a do printf "<%s>" "$a"; done\n')
    wrapper = tmp_path / "java"
    wrapper.write_text(java._WRAPPER.format(java=echo))
    for file in (echo, wrapper):
        file.chmod(0o755)
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Da=b c", "Main", ""]
    shown = subprocess.run([str(wrapper), *arguments], capture_output=True, text=True, check=True).stdout
    assert shown == "<-Xmx1g><-Da=b c><Main><>"
