"""Set-up works behind any mirror: pip's settings reach uv, and nothing in the repository names a registry."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def setup_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("setup_script", ROOT / "tools" / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pip_variables_become_uv_variables(
    setup_script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.test/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://other.test/simple")
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "12.5")
    monkeypatch.setenv("PIP_CERT", "/certs.pem")
    monkeypatch.setenv("PIP_FIND_LINKS", f"{tmp_path} /no/such/folder")
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_HTTP_TIMEOUT", "SSL_CERT_FILE", "UV_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    settings = setup_script.uv_settings()
    assert settings["UV_DEFAULT_INDEX"] == "https://mirror.test/simple"
    assert settings["UV_INDEX"] == "https://other.test/simple"
    assert settings["UV_HTTP_TIMEOUT"] == "12"
    assert settings["SSL_CERT_FILE"] == "/certs.pem"
    assert settings["UV_FIND_LINKS"] == str(tmp_path)


def test_a_uv_variable_of_the_user_wins(setup_script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.test/simple")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "https://mine.test/simple")
    assert setup_script.uv_settings()["UV_DEFAULT_INDEX"] == "https://mine.test/simple"


@pytest.mark.parametrize("lock", ["requirements.lock", "tools/uv.lock"])
def test_a_lock_has_hashes_and_no_addresses(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert "://" not in text
    packages = re.findall(r"^[A-Za-z0-9._-]+==\S+(.*)$", text, flags=re.MULTILINE)
    assert packages
    assert all(rest.strip().endswith("\\") for rest in packages), "a package without a hash"


def test_plain_make_lists_every_target() -> None:
    text = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("setup", "demo", "test", "check", "bench", "simulate", "model", "chaos", "clean"):
        assert f"make {target} " in text
