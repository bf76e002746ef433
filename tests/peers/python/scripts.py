"""Puts the scripts of redlatch together from their files, as docs/protocol.md says."""

import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[3]
LUA = ROOT / "internal" / "protocol" / "script" / "lua"
VECTORS = ROOT / "docs" / "vectors"
SOURCES = json.loads((VECTORS / "scripts.json").read_text())


def text(name):
    """Returns a script such as "mutex acquire"."""
    hot, cold = [], []
    for file in SOURCES[name]:
        above, found, below = (LUA / (file + ".lua")).read_text().partition("\n-- cold\n")
        hot.append(above)
        cold.append(below)
    if not found:
        return "\n".join(hot)
    return "\n".join(hot + cold)
