"""Opening of the store for a path or URI."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from obstore import exceptions as obstore_errors
from obstore.store import AzureStore, GCSStore, S3Store

from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.storage import registry as in_process
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.metered import find_metered
from pyhudi.storage.object_store import ObjectStorage
from pyhudi.storage.options import (
    AZURE_SCHEMES,
    RETRY_BACKOFF_MAX,
    RETRY_TIMEOUT,
    ClientSettings,
    ambient_settings,
    client_settings,
    nearest_option,
    select_storage_options,
)
from pyhudi.storage.paths import check_relative_folder, local_path
from pyhudi.storage.protocol import Storage, StorageSpec
from pyhudi.storage.secrets import redact, secret_values

S3_SCHEMES = frozenset({"s3", "s3a"})
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://")
_OPEN_STORES_MAX = 256


def open_storage(uri_or_path: str, options: Mapping[str, str] | None = None) -> Storage:
    """The store whose root is the folder `uri_or_path`, which need not exist yet. Cost: no request.

    Args:
        uri_or_path: a local path, `file:/path`, `memory://name[/folder]`, `s3://bucket/folder` (or `s3a://`),
            `gs://bucket/folder`, `az://container/folder`, `abfss://container@account.dfs.core.windows.net/folder` or
            `hdfs://namenode:port/folder`.
        options: the options of a read or write. Only the storage options among them are used, see
            `pyhudi.storage.options`. Without credentials among them, those of the environment are used.

    Calls of one process with the same storage options share a store and its connections, as long as the environment
    says the same of stores: a call after new credentials were put there uses these.

    Raises:
        ConfigError: an option or the URI is wrong.
        UnsafePathError: the folder in the URI has `..` or other unsafe parts.
        UnsupportedFeatureError: no store is known for the URI's scheme.
    """
    scheme = _SCHEME.match(uri_or_path)
    if scheme is None or scheme.group(1) == "file":
        # Made absolute here: the cache must not depend on the working folder.
        folder = local_path(uri_or_path) or uri_or_path
        if not str(folder) or (scheme and not str(folder).startswith("/")):
            raise ConfigError("the URI names no local folder: write file:/path/of/the/table", uri=uri_or_path)
        return _open_local(os.path.abspath(folder), os.getpid())  # noqa: PTH100  # keeps symlinks
    relevant = select_storage_options(options or {})
    return _open_remote(uri_or_path.rstrip("/"), frozenset(relevant.items()), ambient_settings(), os.getpid())


def open_spec(spec: StorageSpec) -> Storage:
    """The store with this specification (`Storage.spec`), which may come from another process.

    Raises:
        UnsupportedFeatureError: the store is in the memory of another process.
        HudiError: as `open_storage`.
    """
    return find_metered(spec, open_spec) or in_process.find(spec) or open_storage(spec.uri, spec.options)


# The process id is part of the cache keys because a forked child must not share its parent's connections, and the
# environment because a client reads it when it is made.
@lru_cache(maxsize=_OPEN_STORES_MAX)
def _open_local(folder: str, _process: int) -> Storage:
    return LocalStorage(folder)


@lru_cache(maxsize=_OPEN_STORES_MAX)
def _open_remote(
    uri: str, options: frozenset[tuple[str, str]], _environment: frozenset[tuple[str, str]], _process: int
) -> Storage:
    # Not with `urllib`: a question mark or a hash sign would end the path there, but may be part of a folder's name.
    scheme, _, rest = uri.partition("://")
    authority, _, folder = rest.partition("/")
    if scheme == "hdfs":
        from pyhudi.storage.hdfs import HdfsStorage  # noqa: PLC0415 - few tables are in Hadoop

        return HdfsStorage(authority=authority, folder=check_relative_folder(folder), options=dict(options))
    if not authority:
        raise ConfigError("the URI names no bucket: write scheme://bucket/folder", uri=uri)
    if ":" in authority.rpartition("@")[0]:
        raise ConfigError("give credentials as options or in the environment, not in the URI", scheme=scheme)
    prefix = check_relative_folder(folder)
    if scheme == "memory":
        return MemoryStorage.named(authority, prefix)
    client = _client(scheme, authority, dict(options))
    return ObjectStorage(client, uri=uri, prefix=prefix, options=dict(options))


def _client(scheme: str, authority: str, options: Mapping[str, str]) -> Any:
    settings = ClientSettings()
    try:
        settings = client_settings(options, authority=authority, scheme=scheme)
        return _make_client(scheme, authority, settings)
    except obstore_errors.UnknownConfigurationKeyError as error:
        unknown = next((name for name in settings.store if f"'{name}'" in str(error)), None)
        reason = f"the store has no option {unknown}"
        if unknown is not None and (nearest := nearest_option(unknown)) is not None:
            reason = f"{reason}: did you mean {nearest}?"
    except (obstore_errors.BaseError, ValueError, TypeError) as error:
        if isinstance(error, ConfigError):
            raise
        # The value of any option may be a secret that the user gave under the wrong name.
        reason = redact(str(error).partition("\n\nDebug source")[0], {*options.values(), *secret_values(options)})
    # Not raised in the `except` block: the client's error, which may quote values of options, would be its context.
    raise ConfigError("the options of the object store are wrong", bucket=authority, reason=reason)


def _make_client(scheme: str, authority: str, settings: ClientSettings) -> Any:
    common: dict[str, Any] = {
        "client_options": dict(settings.client),
        "retry_config": {
            "max_retries": settings.retries,
            "retry_timeout": RETRY_TIMEOUT,
            "backoff": {"max_backoff": RETRY_BACKOFF_MAX},
        },
    }
    if scheme in S3_SCHEMES:
        return S3Store(authority, config=dict(settings.store), **common)
    if scheme == "gs":
        return GCSStore(authority, config=dict(settings.store), **common)
    if scheme in AZURE_SCHEMES:
        container, _, host = authority.partition("@")
        account = {"azure_storage_account_name": host.partition(".")[0]} if host else {}
        return AzureStore(container, config={**account, **settings.store}, **common)
    raise UnsupportedFeatureError(
        "the URI's scheme is not supported: use file, memory, s3, s3a, gs, az, abfs, abfss or hdfs", scheme=scheme
    )
