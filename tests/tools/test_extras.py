"""The tool that tries each extra of a wheel alone knows all extras."""

from __future__ import annotations

import tomllib

from tests.support.pages import ROOT
from tools.extras import FEATURES, NONE


def test_every_extra_has_a_feature_that_is_tried():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(FEATURES) == {NONE, *project["optional-dependencies"]}
