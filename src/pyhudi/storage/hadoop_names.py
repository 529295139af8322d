"""What becomes of the options of Hadoop's file systems (`fs.*`) that no store of ours has a setting for.

Most tune Hadoop's client and mean nothing here. But some say who we are, or how data is protected: to pass those over
would write in the clear, or as somebody else.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

from pyhudi.config.option import OptionWarning
from pyhudi.errors import ConfigError, UnsupportedFeatureError

# Names of options that Hadoop's file systems do not have yet, or that we do not know, are judged by their words.
_PROTECTS = re.compile(
    r"accesspoint|acl|account|arn|auth|credential|crypt|cse|delegation|fips|identity|impersonat|key|kms|oauth|password|policy|proxy"
    r"|requester|role|sas|secret|secur|sign|sse|token|user\b",
    re.IGNORECASE,
)
TRUTHS: Mapping[str, bool] = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class Names:
    """The options of one file system below its prefix: those that we honour, and those that only tune its client.

    A name of `tuning` that ends with a dot stands for all that begin with it; `harmless` are values, in lower case,
    with which an option that we cannot honour asks for nothing.
    """

    honoured: frozenset[str]
    tuning: tuple[str, ...]
    harmless: Mapping[str, frozenset[str]]

    def check(self, options: Mapping[str, str], *, prefix: str) -> None:
        """Refuse what says who we are or how data is protected, and warn of what is unknown; names in lower case.

        Raises:
            UnsupportedFeatureError: an option that must not be passed over; the value is not quoted.
        """
        for name, value in options.items():
            if name in self.honoured or not value.strip() or value.strip().lower() in self.harmless.get(name, ()):
                continue
            if any(name == tuned or (tuned.endswith(".") and name.startswith(tuned)) for tuned in self.tuning):
                continue
            if _PROTECTS.search(name):
                raise UnsupportedFeatureError(
                    "this option of the store is not supported, and data would be written or read without what it asks"
                    " for, or as somebody else: leave it out, or see docs/design/storage.md for what there is",
                    option=f"{prefix}{name}",
                )
            warnings.warn(f"{prefix}{name} has no effect: no store of pyhudi has it", OptionWarning, stacklevel=2)


def below(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The options that begin with this prefix, without it, and in lower case."""
    return {name[len(prefix) :].lower(): value for name, value in options.items() if name.lower().startswith(prefix)}


def truth(name: str, value: str) -> bool:
    """Whether an option is set; `ConfigError` for a value that says neither yes nor no."""
    found = TRUTHS.get(value.strip().lower())
    if found is None:
        raise ConfigError("the value must be true or false", option=name)
    return found
