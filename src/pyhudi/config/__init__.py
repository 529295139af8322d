"""The options that users set, and the properties that a table carries: parsed once, typed, frozen."""

from pyhudi.config.option import OptionWarning

__all__ = ["OptionWarning"]
