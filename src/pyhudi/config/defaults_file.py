"""The file of options that JVM Hudi reads for every job of a machine, and pyhudi does not."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from pyhudi.config.option import OptionWarning

_FOLDER_VARIABLE = "HUDI_CONF_DIR"
_FOLDER = "/etc/hudi/conf"
_NAME = "hudi-defaults.conf"


def warn_of_defaults_file() -> None:
    """Warn (`OptionWarning`) where there is such a file: jobs of JVM Hudi on this machine go by its options.

    Cost: one look for a local file. What lies on other stores is not looked for.
    """
    folder = os.environ.get(_FOLDER_VARIABLE, _FOLDER)
    file = Path(folder.removeprefix("file:"), _NAME)
    if file.is_file():
        warnings.warn(
            f"the options in {file} have no effect: pyhudi reads none but those that it is given, as in hudi_options",
            OptionWarning,
            stacklevel=5,
        )
