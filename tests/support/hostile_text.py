"""Text that would be markup or control a terminal where it is not escaped."""

from __future__ import annotations

import re

HOSTILE = "<script>alert('x')</script>&\u202e\x1b[31m"


def assert_shows_only_text(page: str) -> None:
    """The markup is of elements without effects, and the hostile text is none of it."""
    assert {name.lower() for name in re.findall(r"<\s*/?\s*([^\s/>]+)", page)} <= {
        *("table", "caption", "thead", "tbody", "tr", "th", "td", "code", "div", "span", "svg", "rect", "details"),
        *("summary", "pre"),
    }
    assert "alert(" in page
    assert not re.search("[\u202e\x1b]", page)
