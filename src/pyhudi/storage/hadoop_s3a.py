"""Translation of Hadoop's options `fs.s3a.*` into settings of an obstore client."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import quote

from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.storage.hadoop_names import Names, below, truth

PREFIX = "fs.s3a."
_BUCKET = "bucket."
_DIGITS_MAX = 9
_PLAIN_NAMES = MappingProxyType(
    {
        "access.key": "aws_access_key_id",
        "secret.key": "aws_secret_access_key",
        "session.token": "aws_session_token",
        "endpoint.region": "aws_region",
    }
)
_OLDER_NAMES = MappingProxyType(
    {
        "server-side-encryption-algorithm": "encryption.algorithm",
        "server-side-encryption.key": "encryption.key",
    }
)
_ENCRYPTIONS = MappingProxyType(
    {"aes256": "AES256", "sse-kms": "aws:kms", "dsse-kms": "aws:kms:dsse", "sse-c": "sse-c"}
)
_NAMES = Names(
    honoured=frozenset(
        {
            *_PLAIN_NAMES,
            "attempts.maximum",
            "aws.credentials.provider",
            "connection.ssl.enabled",
            "encryption.algorithm",
            "encryption.key",
            "endpoint",
            "path.style.access",
            "proxy.host",
            "proxy.password",
            "proxy.port",
            "proxy.ssl.enabled",
            "proxy.username",
            "requester.pays.enabled",
        }
    ),
    tuning=(
        *("audit.", "block.size", "bucket.probe", "buffer.dir", "change.detection.", "committer.", "connection."),
        *("directory.marker.", "downgrade.syncable.exceptions", "etag.checksum.enabled", "executor.capacity"),
        *("experimental.", "fast.upload", "fast.upload.", "input.", "impl", "list.version", "max.total.tasks"),
        *("metadatastore.", "multiobjectdelete.enable", "multipart.", "optimized.copy.from.local.enabled"),
        *("paging.maximum", "performance.", "prefetch.", "readahead.range", "retry.", "s3guard.", "select."),
        *("socket.", "ssl.channel.mode", "threads.", "user.agent.prefix", "vectored.", "rename.", "create.performance"),
        *("access.grants.fallback.to.iam", "cross.region.access.enabled", "checksum.", "classloader.isolation"),
    ),
    harmless=MappingProxyType(
        {
            "acl.default": frozenset({"private"}),
            "endpoint.fips": frozenset({"false"}),
            "accesspoint.required": frozenset({"false"}),
            "access.grants.enabled": frozenset({"false"}),
        }
    ),
)

# The sources of credentials that obstore tries if no option gives any, in its order, each with the environment
# variables that enable it.
_SOURCES = MappingProxyType(
    {
        "environment": ("AWS_ACCESS_KEY_ID",),
        "web identity": ("AWS_WEB_IDENTITY_TOKEN_FILE",),
        "container": ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
        "instance": (),
    }
)
_PROVIDERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "AnonymousAWSCredentialsProvider": ("anonymous",),
        "AnonymousCredentialsProvider": ("anonymous",),
        "SimpleAWSCredentialsProvider": ("options",),
        "TemporaryAWSCredentialsProvider": ("options",),
        "EnvironmentVariableCredentialsProvider": ("environment",),
        "WebIdentityTokenCredentialsProvider": ("web identity",),
        "WebIdentityTokenFileCredentialsProvider": ("web identity",),
        "ContainerCredentialsProvider": ("container",),
        "EC2ContainerCredentialsProviderWrapper": ("container", "instance"),
        "IAMInstanceCredentialsProvider": ("container", "instance"),
        "InstanceProfileCredentialsProvider": ("instance",),
        "DefaultAWSCredentialsProviderChain": tuple(_SOURCES),
        "DefaultCredentialsProvider": tuple(_SOURCES),
    }
)


def s3a_settings(options: Mapping[str, str], bucket: str) -> tuple[dict[str, str], dict[str, str], int | None]:
    """Settings of the store and of its client, and the number of retries, from the options of a read or write.

    An option `fs.s3a.bucket.<bucket>.*` takes precedence over the same option `fs.s3a.*`.

    Raises:
        ConfigError: the value of an option is not valid, or contradicts another option.
        UnsupportedFeatureError: an option asks for an identity or a protection of data that pyhudi does not support.
    """
    given = _of_bucket(options, bucket)
    _NAMES.check(given, prefix=PREFIX)
    store = {_PLAIN_NAMES[name]: value for name, value in given.items() if name in _PLAIN_NAMES}
    store |= _identity(given)
    store |= _encryption(given.get("encryption.algorithm", "").strip(), given.get("encryption.key", "").strip())
    if truth(f"{PREFIX}requester.pays.enabled", given.get("requester.pays.enabled", "false")):
        store["aws_request_payer"] = "true"
    return {**store, **_addressing(given, bucket)}, _proxy(given), _retries(given.get("attempts.maximum"))


def _of_bucket(options: Mapping[str, str], bucket: str) -> dict[str, str]:
    everything = {_OLDER_NAMES.get(name, name): value for name, value in below(options, PREFIX).items()}
    own = below({f"{PREFIX}{name}": value for name, value in everything.items()}, f"{PREFIX}{_BUCKET}{bucket.lower()}.")
    general = {
        name: value
        for name, value in everything.items()
        # `bucket.probe` is an option for all buckets; all other options `bucket.*` contain the name of a bucket.
        if not name.startswith(_BUCKET) or name == "bucket.probe"
    }
    return general | {_OLDER_NAMES.get(name, name): value for name, value in own.items()}


def _identity(given: Mapping[str, str]) -> dict[str, str]:
    """The settings with which obstore uses the same credentials as Hadoop's providers of credentials.

    obstore tries its sources of credentials in a fixed order. If its first source is not the one that Hadoop would
    use, the options are refused: the process would act under another identity.
    """
    names = [name.strip() for name in given.get("aws.credentials.provider", "").split(",") if name.strip()]
    if not names:
        return {}
    option = f"{PREFIX}aws.credentials.provider"
    sources: list[str] = []
    for name in names:
        known = _PROVIDERS.get(name.rpartition(".")[2])
        if known is None:
            raise UnsupportedFeatureError(
                "this provider of credentials is not supported: give access.key and secret.key as options, or set"
                " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment",
                option=option,
                provider=name,
            )
        sources += known
    is_given = {"options": "access.key" in given, "anonymous": True, "instance": True}
    for source, variables in _SOURCES.items():
        is_given.setdefault(source, any(os.environ.get(variable) for variable in variables))
    wanted = next((source for source in sources if is_given[source]), None)
    if wanted == "anonymous":
        return {"aws_skip_signature": "true"}
    found = next(source for source in ("options", *_SOURCES) if is_given[source])
    if wanted != found:
        raise UnsupportedFeatureError(
            f"pyhudi would take its credentials from this source: {found}; the providers in the option take them from"
            " another one: remove the option, or remove the credentials of that source",
            option=option,
        )
    return {}


def _encryption(algorithm: str, key: str) -> dict[str, str]:
    if not algorithm:
        if key:
            raise ConfigError(
                "there is a key of encryption, but no algorithm: set encryption.algorithm",
                option=f"{PREFIX}encryption.key",
            )
        return {}
    kind = _ENCRYPTIONS.get(algorithm.lower())
    if kind is None:
        raise UnsupportedFeatureError(
            "this encryption is not supported: use AES256, SSE-KMS, DSSE-KMS or SSE-C",
            option=f"{PREFIX}encryption.algorithm",
            algorithm=algorithm,
        )
    settings = {"aws_server_side_encryption": kind}
    if kind == "sse-c":
        if not key:
            raise ConfigError("SSE-C needs a key: set encryption.key", option=f"{PREFIX}encryption.key")
        return {**settings, "aws_sse_customer_key_base64": key}
    if key and kind == "AES256":
        raise ConfigError(
            "AES256 takes no key, because S3 manages the keys: remove the key, or use SSE-KMS or SSE-C",
            option=f"{PREFIX}encryption.key",
        )
    return {**settings, "aws_sse_kms_key_id": key} if key else settings


def _addressing(given: Mapping[str, str], bucket: str) -> dict[str, str]:
    endpoint = given.get("endpoint", "").strip().rstrip("/")
    path_style = truth(f"{PREFIX}path.style.access", given.get("path.style.access", "true"))
    settings = {} if path_style else {"aws_virtual_hosted_style_request": "true"}
    if not endpoint:
        return settings
    if "://" not in endpoint:
        secure = truth(f"{PREFIX}connection.ssl.enabled", given.get("connection.ssl.enabled", "true"))
        endpoint = f"{'https' if secure else 'http'}://{endpoint}"
    if not path_style:
        # obstore expects the bucket in the host of a virtual-hosted endpoint; Hadoop inserts the bucket itself.
        scheme, _, host = endpoint.partition("://")
        endpoint = f"{scheme}://{bucket}.{host}"
    return {**settings, "aws_endpoint": endpoint}


def _proxy(given: Mapping[str, str]) -> dict[str, str]:
    host = given.get("proxy.host", "").strip()
    if not host:
        return {}
    secure = truth(f"{PREFIX}proxy.ssl.enabled", given.get("proxy.ssl.enabled", "false"))
    port = given.get("proxy.port", "").strip() or ("443" if secure else "80")
    user = given.get("proxy.username", "")
    login = f"{quote(user, safe='')}:{quote(given.get('proxy.password', ''), safe='')}@" if user else ""
    return {"proxy_url": f"{'https' if secure else 'http'}://{login}{host}:{port}"}


def _retries(attempts: str | None) -> int | None:
    if attempts is None:
        return None
    digits = attempts.strip()
    if not digits.isdecimal() or len(digits) > _DIGITS_MAX or int(digits) < 1:
        raise ConfigError(
            "the number of attempts must be a positive integer", option=f"{PREFIX}attempts.maximum", value=attempts
        )
    return int(digits) - 1
