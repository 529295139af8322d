"""The jars of servers that tests start, by `tools/server_jars.py`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def server_jars(name: str) -> Path:
    """The folder with the jars of a server. Raises `RuntimeError` if they are not there and cannot be fetched."""
    path = Path(__file__).resolve().parents[2] / "tools" / "server_jars.py"
    spec = importlib.util.spec_from_file_location("pyhudi_tools_server_jars", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclasses look for their annotations
    spec.loader.exec_module(module)
    found: Path = module.jars(name)
    return found
