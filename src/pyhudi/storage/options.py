"""The options of object stores: Hadoop's `fs.s3a.*` names and obstore's own, as settings of an obstore client."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType

from pyhudi.errors import ConfigError

RETRIES = 8
RETRY_BACKOFF_MAX = timedelta(seconds=3)
RETRY_TIMEOUT = timedelta(seconds=60)
REQUEST_TIMEOUT = "120s"
"""Long enough for the upload of one part, 10 MiB, over a slow line."""

_S3A_NAMES = MappingProxyType(
    {
        "fs.s3a.access.key": "aws_access_key_id",
        "fs.s3a.secret.key": "aws_secret_access_key",
        "fs.s3a.session.token": "aws_session_token",
        "fs.s3a.endpoint.region": "aws_region",
    }
)
_S3A_ENDPOINT = "fs.s3a.endpoint"
_S3A_PATH_STYLE = "fs.s3a.path.style.access"
_S3A_SSL = "fs.s3a.connection.ssl.enabled"
_S3A_ATTEMPTS = "fs.s3a.attempts.maximum"
_DIGITS_MAX = 9
_ENDPOINT_NAMES = ("aws_endpoint", "aws_endpoint_url", "endpoint", "endpoint_url", "azure_storage_endpoint")
_CLIENT_NAMES = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "root_certificate",
        "timeout",
        "user_agent",
    }
)
_STORE_NAME = re.compile(r"^(aws|azure|google)_[a-z0-9_]+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """What an obstore client is made with. `store` holds the credentials, so none of it shows in `repr`."""

    store: Mapping[str, str] = field(default_factory=dict, repr=False)
    client: Mapping[str, str | bool] = field(default_factory=dict, repr=False)
    retries: int = RETRIES


def select_storage_options(options: Mapping[str, str]) -> dict[str, str]:
    """Those of a write's or read's options that are meant for the store: `fs.s3a.*`, and obstore's names.

    obstore's names are `aws_*`, `azure_*`, `google_*` (in any case) and the client's, such as `allow_http`.
    """
    return {name: value for name, value in options.items() if _is_storage_option(name)}


def client_settings(options: Mapping[str, str], *, bucket: str) -> ClientSettings:
    """The client's settings for one bucket, from storage options (`select_storage_options`) under either kind of name.

    Of `fs.s3a.*`, what tunes Hadoop's own client has no meaning here and is left out. Credentials and regions that
    no option gives come from the environment, as obstore reads it. Raises `ConfigError` for a value that makes no
    sense; a name that obstore does not know is refused when the client is made.
    """
    store: dict[str, str] = {}
    client: dict[str, str | bool] = {"timeout": REQUEST_TIMEOUT}
    for name, value in options.items():
        lower = name.lower()
        if lower.startswith("fs.s3a."):
            if lower in _S3A_NAMES:
                store[_S3A_NAMES[lower]] = value
        elif lower in _CLIENT_NAMES:
            client[lower] = _truth(name, value) if lower.startswith("allow_") else value
        else:
            store[lower] = value
    s3a = {name.lower(): value for name, value in options.items() if name.lower().startswith("fs.s3a.")}
    store.update(_s3a_addressing(s3a, bucket))
    if any(store.get(name, "").startswith("http://") for name in _ENDPOINT_NAMES):
        # Who writes `http://` has decided against encryption.
        client["allow_http"] = True
    return ClientSettings(store=store, client=client, retries=_s3a_retries(s3a))


def _s3a_addressing(s3a: Mapping[str, str], bucket: str) -> dict[str, str]:
    endpoint = s3a.get(_S3A_ENDPOINT, "").strip().rstrip("/")
    path_style = _truth(_S3A_PATH_STYLE, s3a.get(_S3A_PATH_STYLE, "true"))
    settings = {} if path_style else {"aws_virtual_hosted_style_request": "true"}
    if not endpoint:
        return settings
    if "://" not in endpoint:
        scheme = "https" if _truth(_S3A_SSL, s3a.get(_S3A_SSL, "true")) else "http"
        endpoint = f"{scheme}://{endpoint}"
    if not path_style:
        # obstore wants the bucket in the endpoint's host then; Hadoop puts it there itself.
        scheme, _, host = endpoint.partition("://")
        endpoint = f"{scheme}://{bucket}.{host}"
    return {**settings, "aws_endpoint": endpoint}


def _s3a_retries(s3a: Mapping[str, str]) -> int:
    attempts = s3a.get(_S3A_ATTEMPTS)
    if attempts is None:
        return RETRIES
    digits = attempts.strip()
    if not digits.isdecimal() or len(digits) > _DIGITS_MAX or int(digits) < 1:
        raise ConfigError("the number of attempts must be a positive integer", option=_S3A_ATTEMPTS, value=attempts)
    return int(digits) - 1


def _is_storage_option(name: str) -> bool:
    lower = name.lower()
    return lower.startswith("fs.s3a.") or lower in _CLIENT_NAMES or _STORE_NAME.match(lower) is not None


def _truth(name: str, value: str) -> bool:
    words = {"true": True, "1": True, "false": False, "0": False}
    found = words.get(value.strip().lower())
    if found is None:
        raise ConfigError("the value must be true or false", option=name)
    return found
