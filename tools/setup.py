#!/usr/bin/env python3
"""Sets the project up on a machine that has nothing but Python: `make setup`. Needs the standard library only.

1. `.tools/`: a virtual environment with the pinned `uv`, installed by pip.
2. `.venv/`: exactly the packages of `requirements.lock`, every file checked against its hash.
3. the package itself, editable.

pip's settings (PIP_* variables and pip.conf: mirrors, certificates, proxies' time-outs) are handed on to uv, which does not
read them by itself. Nothing here names a registry: where packages come from is the machine's business.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".tools"
VENV = ROOT / ".venv"
STAMP = VENV / ".ready"
PYTHON_MIN = (3, 11)

# pip's setting → uv's variable.
UV_VARIABLE = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "timeout": "UV_HTTP_TIMEOUT",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "no-index": "UV_NO_INDEX",
    "cache-dir": "UV_CACHE_DIR",
}


def main() -> None:
    if sys.version_info < PYTHON_MIN:
        stop(
            f"Python {PYTHON_MIN[0]}.{PYTHON_MIN[1]} or newer is needed, this is {sys.version.split()[0]}",
            "install a newer one and run: make setup PYTHON=/path/to/python3",
        )
    uv = tool_uv()
    settings = uv_settings()
    say("creating .venv from requirements.lock (every file checked by hash)")
    if not (VENV / "bin" / "python").exists():
        run([uv, "venv", "--quiet", "--python", sys.executable, str(VENV)], settings)
    target = ["--quiet", "--python", str(VENV / "bin" / "python")]
    run([uv, "pip", "sync", *target, "--require-hashes", "requirements.lock"], settings)
    say("installing tidegate itself, editable")
    run([uv, "pip", "install", *target, "--no-deps", "--editable", "."], settings)
    check_java()
    STAMP.touch()
    say("ready")


def tool_uv() -> str:
    """The pinned uv in `.tools`, which pip installs with the machine's own settings."""
    uv = TOOLS / "bin" / "uv"
    if uv.exists():
        return str(uv)
    say("installing uv into .tools")
    lock = ["--quiet", "--disable-pip-version-check", "--require-hashes", "-r", "tools/uv.lock"]
    shutil.rmtree(TOOLS, ignore_errors=True)
    made = subprocess.run(
        [sys.executable, "-m", "venv", str(TOOLS)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if made.returncode == 0:
        run([str(TOOLS / "bin" / "python"), "-m", "pip", "install", *lock])
        return str(uv)
    # Some distributions split `venv` off: then the system's pip puts uv into a directory of ours.
    shutil.rmtree(TOOLS, ignore_errors=True)
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode:
        stop("this Python has neither venv nor pip", "install them (Debian, Ubuntu: apt install python3-venv)")
    run([sys.executable, "-m", "pip", "install", *lock, "--target", str(TOOLS)])
    return str(uv)


def uv_settings() -> dict[str, str]:
    """The environment for uv: ours, plus what pip would use."""
    settings = dict(os.environ)
    for name, value in pip_settings().items():
        variable = UV_VARIABLE.get(name)
        if variable is None or variable in os.environ:
            continue
        if variable == "UV_FIND_LINKS":
            value = ",".join(place for place in value.split() if "://" in place or Path(place).is_dir())
        elif variable == "UV_HTTP_TIMEOUT":
            value = str(int(float(value)))
        if value:
            settings[variable] = value
    settings.setdefault("UV_LINK_MODE", "copy")
    # The interpreter was chosen by whoever called us: never download another one.
    settings.setdefault("UV_PYTHON_DOWNLOADS", "never")
    return settings


def pip_settings() -> dict[str, str]:
    """pip's effective settings, ``{"index-url": …}``: files first, the environment over them."""
    python = TOOLS / "bin" / "python"
    listed = subprocess.run(
        [str(python) if python.exists() else sys.executable, "-m", "pip", "config", "list"],
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, str] = {}
    for line in listed.stdout.splitlines():
        section, _, rest = line.partition(".")
        name, _, value = rest.partition("=")
        if section in (":env:", "global", "install"):
            found[name.lower().replace("_", "-")] = value.strip().strip("'\"").replace("\\n", " ")
    for variable, value in os.environ.items():
        if variable.startswith("PIP_"):
            found[variable[4:].lower().replace("_", "-")] = value
    return found


def check_java() -> None:
    """Says which Java Spark will use, so that a missing one is noticed now and not in the middle of a demo."""
    code = "from tidegate.spark.java import ensure_java; print(ensure_java())"
    done = subprocess.run(
        [str(VENV / "bin" / "python"), "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        stop(
            "no Java runtime for Spark:\n" + done.stderr.strip().splitlines()[-1],
            "install Java 17 or newer, or set JAVA_HOME",
        )
    say(f"Java: {done.stdout.strip()}")


def run(command: list[str], environment: dict[str, str] | None = None) -> None:
    if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
        stop(f"this failed: {' '.join(command)}", "the lines above say why; `make clean setup` starts afresh")


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)


def stop(what: str, hint: str) -> None:
    sys.exit(f"setup: {what}\n  → {hint}")


if __name__ == "__main__":
    main()
