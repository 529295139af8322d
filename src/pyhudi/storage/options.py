"""The options of object stores, Hadoop's names and obstore's own, as settings of an obstore client."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.storage.hadoop_azure import azure_settings
from pyhudi.storage.hadoop_gcs import OLDER_PREFIX, gcs_settings
from pyhudi.storage.hadoop_names import Names, below, truth
from pyhudi.storage.hadoop_s3a import s3a_settings

RETRIES = 8
RETRY_BACKOFF_MAX = timedelta(seconds=3)
RETRY_TIMEOUT = timedelta(seconds=60)
REQUEST_TIMEOUT = "120s"
"""Long enough for the upload of one part, 10 MiB, over a slow line."""

AZURE_SCHEMES = frozenset({"az", "abfs", "abfss"})
_CREDENTIAL_FILES = "hadoop.security.credential.provider.path"
_EMRFS_PREFIX = "fs.s3."
_EMRFS = Names(
    honoured=frozenset(),
    tuning=(
        "impl",
        "block.size",
        "buffer.dir",
        "consistent",
        "consistent.",
        "maxconnections",
        "maxretries",
        "multipart.",
    ),
    harmless={"enableserversideencryption": frozenset({"false"}), "cse.enabled": frozenset({"false"})},
)
"""Amazon's own file system, whose options a job that moves from EMR brings along."""
_HADOOP_PREFIXES = ("fs.", OLDER_PREFIX, _CREDENTIAL_FILES)
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
    """Those of a write's or read's options that are meant for the store: Hadoop's, and obstore's names.

    Hadoop's begin with `fs.`; obstore's are `aws_*`, `azure_*`, `google_*` (in any case) and the client's, such as
    `allow_http`.
    """
    return {name: value for name, value in options.items() if _is_storage_option(name)}


def client_settings(options: Mapping[str, str], *, authority: str, scheme: str = "s3") -> ClientSettings:
    """The client's settings for one bucket, from storage options (`select_storage_options`) under either kind of name.

    Of Hadoop's options those of the URI's store count. Who we are and how data is protected is honoured or refused;
    what tunes Hadoop's own client has no meaning here. Credentials and regions that no option gives come from the
    environment, as obstore reads it. A name that obstore does not know is refused when the client is made.

    Raises:
        ConfigError: a value makes no sense.
        UnsupportedFeatureError: an option asks for an identity or a protection that we cannot give.
    """
    store: dict[str, str] = {}
    client: dict[str, str | bool] = {"timeout": REQUEST_TIMEOUT}
    for name, value in options.items():
        lower = name.lower()
        if lower in _CLIENT_NAMES:
            client[lower] = truth(name, value) if lower.startswith("allow_") else value
        elif not lower.startswith(_HADOOP_PREFIXES):
            store[lower] = value
    of_store, of_client, retries = _hadoop_settings(options, scheme, authority)
    store.update(of_store)
    client.update(of_client)
    if any(store.get(name, "").startswith("http://") for name in _ENDPOINT_NAMES):
        # Who writes `http://` has decided against encryption.
        client["allow_http"] = True
    return ClientSettings(store=store, client=client, retries=RETRIES if retries is None else retries)


def _hadoop_settings(
    options: Mapping[str, str], scheme: str, authority: str
) -> tuple[dict[str, str], dict[str, str], int | None]:
    provider = next((name for name in options if name.lower() == _CREDENTIAL_FILES and options[name].strip()), None)
    if provider is not None:
        raise UnsupportedFeatureError(
            "Hadoop's files of credentials are not supported: give the credentials as options", option=provider
        )
    if scheme in AZURE_SCHEMES:
        return *azure_settings(options, authority), None
    if scheme == "gs":
        return *gcs_settings(options), None
    _EMRFS.check(below(options, _EMRFS_PREFIX), prefix=_EMRFS_PREFIX)
    return s3a_settings(options, authority)


def _is_storage_option(name: str) -> bool:
    lower = name.lower()
    return lower.startswith(_HADOOP_PREFIXES) or lower in _CLIENT_NAMES or _STORE_NAME.match(lower) is not None
