"""AWS Glue's data catalog, by boto3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from pyhudi.catalogs.protocol import CatalogColumn, CatalogPartition, CatalogTable, StorageFormat
from pyhudi.errors import CatalogError, UnsupportedFeatureError

_ASKED_MAX = 1000
_DROPPED_MAX = 25
_KEPT = ("Description", "Owner", "Retention", "TableType", "ViewOriginalText", "ViewExpandedText", "TargetTable")
"""What `update_table` takes of what `get_table` gives, beside what an entry says: else an update drops it."""


class Glue:
    """See `Catalog`. Credentials are as boto3 finds them."""

    batch_max = 100

    def __init__(self, region: str | None, endpoint: str | None) -> None:
        """Make a client. Raises `UnsupportedFeatureError` if boto3 is missing, `CatalogError` without a region."""
        try:
            import boto3  # noqa: PLC0415 - an extra
            import botocore.exceptions  # noqa: PLC0415
        except ImportError as error:
            raise UnsupportedFeatureError(
                "AWS Glue needs boto3: pip install 'pyhudi[glue]'", package="boto3"
            ) from error
        self._errors = (botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError)
        with self._asked():
            self._client = boto3.client("glue", region_name=region, endpoint_url=endpoint)

    def has_database(self, name: str) -> bool:
        """See `Catalog`."""
        with self._asked(database=name):
            try:
                self._client.get_database(Name=name)
            except self._client.exceptions.EntityNotFoundException:
                return False
        return True

    def create_database(self, name: str) -> None:
        """See `Catalog`."""
        with self._asked(database=name):
            made = {"Name": name, "Description": "automatically created by hoodie"}
            with suppress(self._client.exceptions.AlreadyExistsException):  # another sync has made it meanwhile
                self._client.create_database(DatabaseInput=made)

    def find_table(self, database: str, name: str) -> CatalogTable | None:
        """See `Catalog`."""
        with self._asked(table=f"{database}.{name}"):
            try:
                stored = self._client.get_table(DatabaseName=database, Name=name)["Table"]
            except self._client.exceptions.EntityNotFoundException:
                return None
        return _table_of(stored)

    def create_table(self, table: CatalogTable) -> None:
        """See `Catalog`."""
        with self._asked(table=f"{table.database}.{table.name}"):
            self._client.create_table(DatabaseName=table.database, TableInput=_input_of(table))

    def replace_table(self, table: CatalogTable, *, columns_of_partitions: bool) -> None:
        """See `Catalog`. Glue has no cascade: partitions are given their columns in batches, at their own locations."""
        with self._asked(table=f"{table.database}.{table.name}"):
            self._client.update_table(DatabaseName=table.database, TableInput=_input_of(table), SkipArchive=True)
        if columns_of_partitions:
            present = self.partitions(table, None)
            for start in range(0, len(present), self.batch_max):
                self.move_partitions(table, present[start : start + self.batch_max])

    def partitions(self, table: CatalogTable, values: Sequence[tuple[str, ...]] | None) -> list[CatalogPartition]:
        """See `Catalog`. Cost: a request per 1,000 partitions that are named; of all, per page."""
        place = {"DatabaseName": table.database, "TableName": table.name}
        found: list[Any] = []
        with self._asked(table=f"{table.database}.{table.name}"):
            if values is None:
                pages = self._client.get_paginator("get_partitions").paginate(**place, ExcludeColumnSchema=True)
                found = [partition for page in pages for partition in page["Partitions"]]
            else:
                for start in range(0, len(values), _ASKED_MAX):
                    asked = [{"Values": list(value)} for value in values[start : start + _ASKED_MAX]]
                    while asked:
                        answer = self._client.batch_get_partition(**place, PartitionsToGet=asked)
                        found += answer["Partitions"]
                        asked = answer.get("UnprocessedKeys", [])
        return [
            CatalogPartition(tuple(partition["Values"]), partition["StorageDescriptor"]["Location"])
            for partition in found
        ]

    def add_partitions(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """See `Catalog`."""
        inputs = [_partition_input(table, partition) for partition in partitions]
        with self._asked(table=f"{table.database}.{table.name}"):
            answer = self._client.batch_create_partition(
                DatabaseName=table.database, TableName=table.name, PartitionInputList=inputs
            )
        _check_errors(table, answer, passed_over="AlreadyExistsException")

    def move_partitions(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """See `Catalog`."""
        entries = [
            {"PartitionValueList": list(partition.values), "PartitionInput": _partition_input(table, partition)}
            for partition in partitions
        ]
        with self._asked(table=f"{table.database}.{table.name}"):
            answer = self._client.batch_update_partition(
                DatabaseName=table.database, TableName=table.name, Entries=entries
            )
        _check_errors(table, answer)

    def drop_partitions(self, table: CatalogTable, values: Sequence[tuple[str, ...]]) -> None:
        """See `Catalog`. Cost: a request per 25 partitions."""
        for start in range(0, len(values), _DROPPED_MAX):
            asked = [{"Values": list(value)} for value in values[start : start + _DROPPED_MAX]]
            with self._asked(table=f"{table.database}.{table.name}"):
                answer = self._client.batch_delete_partition(
                    DatabaseName=table.database, TableName=table.name, PartitionsToDelete=asked
                )
            _check_errors(table, answer, passed_over="EntityNotFoundException")

    def close(self) -> None:
        """See `Catalog`."""
        self._client.close()

    @contextmanager
    def _asked(self, **about: str) -> Iterator[None]:
        """What Glue refuses, and requests that fail, as errors of pyhudi."""
        try:
            yield
        except self._errors as error:
            raise CatalogError(f"AWS Glue refused a request, or did not answer: {error}", **about) from error


def _check_errors(table: CatalogTable, answer: dict[str, Any], *, passed_over: str = "") -> None:
    """Raise `CatalogError` for the first partition of a batch that Glue refused."""
    for failed in answer.get("Errors", []):
        detail = failed.get("ErrorDetail", {})
        if detail.get("ErrorCode") != passed_over:
            raise CatalogError(
                f"AWS Glue refused a partition: {detail.get('ErrorCode')}: {detail.get('ErrorMessage')}",
                table=f"{table.database}.{table.name}",
                values=tuple(failed.get("PartitionValues", failed.get("PartitionValueList", ()))),
            )


def _input_of(table: CatalogTable) -> dict[str, Any]:
    kept = {name: table.stored[name] for name in _KEPT if name in table.stored} if table.stored else {}
    return {
        "TableType": "EXTERNAL_TABLE",
        **kept,
        "Name": table.name,
        "StorageDescriptor": _descriptor(table, table.location),
        "PartitionKeys": _columns(table.partition_columns),
        "Parameters": dict(table.parameters),
    }


def _partition_input(table: CatalogTable, partition: CatalogPartition) -> dict[str, Any]:
    return {"Values": list(partition.values), "StorageDescriptor": _descriptor(table, partition.location)}


def _descriptor(table: CatalogTable, location: str) -> dict[str, Any]:
    return {
        "Columns": _columns(table.columns),
        "Location": location,
        "InputFormat": table.format.input_format,
        "OutputFormat": table.format.output_format,
        "SerdeInfo": {"SerializationLibrary": table.format.serde, "Parameters": dict(table.serde_parameters)},
    }


def _columns(columns: Sequence[CatalogColumn]) -> list[dict[str, str]]:
    return [
        {"Name": column.name, "Type": column.type, **({"Comment": column.comment} if column.comment else {})}
        for column in columns
    ]


def _table_of(stored: dict[str, Any]) -> CatalogTable:
    descriptor = stored.get("StorageDescriptor", {})
    serde = descriptor.get("SerdeInfo", {})
    return CatalogTable(
        database=stored["DatabaseName"],
        name=stored["Name"],
        location=descriptor.get("Location", ""),
        columns=_columns_of(descriptor.get("Columns", [])),
        partition_columns=_columns_of(stored.get("PartitionKeys", [])),
        format=StorageFormat(
            descriptor.get("InputFormat", ""),
            descriptor.get("OutputFormat", ""),
            serde.get("SerializationLibrary", ""),
        ),
        serde_parameters=serde.get("Parameters", {}),
        parameters=stored.get("Parameters", {}),
        stored=stored,
    )


def _columns_of(stored: Sequence[dict[str, str]]) -> tuple[CatalogColumn, ...]:
    return tuple(CatalogColumn(column["Name"], column.get("Type", ""), column.get("Comment", "")) for column in stored)
