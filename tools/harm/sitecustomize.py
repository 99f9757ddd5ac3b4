"""Planted by ``tools/storm.py --harm alignment`` into every process of its queries, the slots included: the interpreter imports this at start.

Nothing happens unless STORM_HARM asks for it.
"""

import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder

TARGET = "tidegate.runtime.alignment"


class PlantOnImport(MetaPathFinder):
    """Lets the real module be imported, then takes the holding of channels out of it."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname != TARGET:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_and_plant(module):
            execute(module)
            module.held = lambda *_: frozenset()

        spec.loader.exec_module = exec_and_plant
        return spec


if os.environ.get("STORM_HARM") == "alignment":
    sys.meta_path.insert(0, PlantOnImport())
