"""Types of arguments that several commands have."""

from __future__ import annotations

import argparse


def key_and_value(text: str) -> tuple[str, str]:
    """An option as `KEY=VALUE`."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"must be KEY=VALUE, not {text!r}")
    return key, value
