"""Removal of credentials from messages and logs.

Messages of object-store clients quote requests and answers, which may contain credentials. `redact` masks the known
secret values, and also every text that has the form of a cloud credential.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote

MASK = "***"
_SHORTEST_SECRET = 4
"""Shorter values are not masked: masking every `a` of a message would make it unreadable."""

_SECRET_NAME = re.compile(
    r"key|secret|token|password|passwd|credential|signature|sas|authorization|proxy", re.IGNORECASE
)
_ENVIRONMENT_NAME = re.compile(r"^(AWS|AZURE|GOOGLE|GCP|GCS)_", re.IGNORECASE)
_LOOKS_SECRET = (
    re.compile(r"(?P<keep>://)[^/@\s:]+:[^/@\s]*(?=@)"),
    re.compile(r"(?P<keep>AWSAccessKeyId\W{0,6})[A-Za-z0-9+/=_-]+", re.IGNORECASE),
    re.compile(
        r"(?P<keep>[?&\s\"'](?:X-Amz-(?:Signature|Credential|Security-Token)|sig|access_token|refresh_token"
        r"|client_secret|assertion)=)[^&\s\"'<>]+",
        re.IGNORECASE,
    ),
    re.compile(r"(?P<keep>authorization\W{1,6}(?:Bearer |AWS4-HMAC-SHA256 )?)[^\r\n\"']+", re.IGNORECASE),
    re.compile(r"(?P<keep>-----BEGIN [A-Z ]*KEY-----).*?(?=-----END|\Z)", re.DOTALL),
)


def is_secret(name: str) -> bool:
    """Whether the value of the storage option or environment variable of this name must never be shown."""
    return _SECRET_NAME.search(name) is not None


def secret_values(options: Mapping[str, str]) -> frozenset[str]:
    """The secret values among the options and among the current environment variables of the clouds."""
    named = [value for name, value in options.items() if is_secret(name)]
    ambient = [value for name, value in os.environ.items() if _ENVIRONMENT_NAME.match(name) and is_secret(name)]
    return frozenset((*named, *ambient))


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """The text with all secret values, and all text in the form of a credential, replaced by `***`.

    Percent-encoded secret values are replaced, too. Cost: one pass over the text per secret.
    """
    hidden = [value for value in secrets if len(value) >= _SHORTEST_SECRET]
    spellings = {spelling for value in hidden for spelling in (value, quote(value, safe=""), quote(value))}
    # Longest first: if one secret contains another, replacing the shorter one first would leave a part of the longer.
    for spelling in sorted(spellings, key=len, reverse=True):
        text = text.replace(spelling, MASK)
    for pattern in _LOOKS_SECRET:
        text = pattern.sub(rf"\g<keep>{MASK}", text)
    return text
