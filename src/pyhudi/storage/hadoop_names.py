"""Options of Hadoop's file systems (`fs.*`) for which pyhudi's stores have no setting.

Most of them tune Hadoop's client and are ignored. But some select an identity or the protection of data. pyhudi
refuses those: otherwise it would write without encryption, or under another identity.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pyhudi.config.option import warn_of_option
from pyhudi.errors import ConfigError, UnsupportedFeatureError

# The words in the name of an unknown option that mark it as an option for identity or for the protection of data.
_PROTECTS = re.compile(
    r"accesspoint|acl|account|arn|auth|credential|crypt|cse|delegation|fips|identity|impersonat|key|kms|oauth|password|policy|proxy"
    r"|requester|role|sas|secret|secur|sign|sse|token|user\b",
    re.IGNORECASE,
)
TRUTHS: Mapping[str, bool] = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class Names:
    """The names of the options of one file system, without their prefix.

    Attributes:
        honoured: options that pyhudi translates.
        tuning: options that only tune Hadoop's client. A name that ends with a dot is a prefix of names.
        harmless: options that pyhudi does not support, each with the values, in lower case, that ask for nothing.
    """

    honoured: frozenset[str]
    tuning: tuple[str, ...]
    harmless: Mapping[str, frozenset[str]]

    def check(self, options: Mapping[str, str], *, prefix: str) -> None:
        """Refuse unsupported options for identity or for the protection of data, and warn of unknown options.

        The names in `options` are in lower case and have no prefix.

        Raises:
            UnsupportedFeatureError: an option asks for an identity or a protection of data that pyhudi does not
                support. The message does not quote its value.
        """
        for name, value in options.items():
            if name in self.honoured or not value.strip() or value.strip().lower() in self.harmless.get(name, ()):
                continue
            if any(name == tuned or (tuned.endswith(".") and name.startswith(tuned)) for tuned in self.tuning):
                continue
            if _PROTECTS.search(name):
                raise UnsupportedFeatureError(
                    "this option for identity or for the protection of data is not supported: remove it, or see"
                    " docs/design/storage.md for the supported options",
                    option=f"{prefix}{name}",
                )
            warn_of_option(f"{prefix}{name} has no effect: pyhudi does not know it")


def below(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The options whose names begin with `prefix`, by the rest of the name in lower case."""
    return {name[len(prefix) :].lower(): value for name, value in options.items() if name.lower().startswith(prefix)}


def truth(name: str, value: str) -> bool:
    """The value of a boolean option.

    Raises:
        ConfigError: the value is neither true nor false.
    """
    found = TRUTHS.get(value.strip().lower())
    if found is None:
        raise ConfigError("the value must be true or false", option=name)
    return found
