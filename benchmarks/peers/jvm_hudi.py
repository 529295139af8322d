"""Real Hudi, copy-on-write, with its defaults, and its metadata table switched on or off."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from peers.hudi_on_spark import HudiOnSpark
from peers.hudi_options import MERGE_ON_READ
from peers.protocol import PAIRED_SCANS, SPARK_OPERATIONS


class JvmHudi(HudiOnSpark):
    metadata_table: ClassVar[str]

    def settings(self) -> Mapping[str, str]:
        return {
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
            "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
            "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        }

    def write_options(self) -> dict[str, str]:
        return {**super().write_options(), **self.read_options()}

    def read_options(self) -> dict[str, str]:
        return {"hoodie.metadata.enable": self.metadata_table}


class WithMetadataTable(JvmHudi):
    metadata_table: ClassVar[str] = "true"


class WithoutMetadataTable(JvmHudi):
    metadata_table: ClassVar[str] = "false"


class MergeOnRead(WithoutMetadataTable):
    lacks: ClassVar[frozenset[str]] = PAIRED_SCANS | SPARK_OPERATIONS | {"small_upsert"}

    def write_options(self) -> dict[str, str]:
        return {**super().write_options(), **MERGE_ON_READ}

    def compact(self, table: Path) -> None:
        options = "hoodie.metadata.enable=false,hoodie.compact.inline.max.delta.commits=1"
        call = f"CALL run_compaction(op => '{{}}', path => '{table}', options => '{options}')"
        for step in ("schedule", "run"):
            self.spark.sql(call.format(step)).collect()
