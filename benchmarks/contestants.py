"""Who takes part: the class of each peer, the Python it runs under and its jars."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
HOME = REPOSITORY / ".bench"
ORACLE = REPOSITORY / ".oracle"
JARS = HOME / "jars"

OWN_PYTHON = REPOSITORY / ".venv" / "bin" / "python"
SPARK_35_PYTHON = ORACLE / "venv" / "bin" / "python"
BENCH_PYTHON = HOME / "venv" / "bin" / "python"
HUDI_RS_PROGRAM = REPOSITORY / ".tools" / "bin" / "hudi-rs"
GENERATOR = HOME / "venv" / "bin" / "tpchgen-cli"

DELTA = "3.3.2"
ICEBERG = "1.10.0"
HADOOP = "3.3.4"
"""The version in Spark 3.5."""
MAVEN_JARS = {
    "delta-spark": f"io.delta:delta-spark_2.12:{DELTA}",
    "delta-storage": f"io.delta:delta-storage:{DELTA}",
    "hadoop-aws": f"org.apache.hadoop:hadoop-aws:{HADOOP}",
    "aws-sdk": "com.amazonaws:aws-java-sdk-bundle:1.12.262",
    "iceberg": f"org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:{ICEBERG}",
}
"""What `setup.py` fetches, by the names that contestants use. Hudi's jar is the oracle's."""


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """One peer. `peer` is `module:class`."""

    name: str
    title: str
    peer: str
    python: Path
    jars: tuple[Path, ...] = ()


def jar(name: str) -> Path:
    """Where the jar of `MAVEN_JARS` lies."""
    _, artifact, version = MAVEN_JARS[name].split(":")
    return JARS / f"{artifact}-{version}.jar"


_HUDI_JAR = ORACLE / "jars" / "hudi-spark3.5-bundle_2.12-1.2.0.jar"

PYHUDI, PYHUDI_MOR, PYHUDI_LOCAL, PARQUET, PARQUET_PARTITIONED, HUDI, HUDI_MOR, HUDI_METADATA, HUDI_RS, DELTA_SPARK = (
    "pyhudi",
    "pyhudi-mor",
    "pyhudi-local",
    "parquet",
    "parquet-partitioned",
    "hudi",
    "hudi-mor",
    "hudi-metadata",
    "hudi-rs",
    "delta",
)
"""Names that the goals and ratios in `report.py` refer to."""

CONTESTANTS = (
    Contestant(
        name=PYHUDI,
        title="pyhudi, Spark 4",
        peer="peers.pyhudi_spark:PyhudiOnSpark",
        python=OWN_PYTHON,
    ),
    Contestant(
        name=PYHUDI_MOR,
        title="pyhudi, Spark 4, merge-on-read",
        peer="peers.pyhudi_spark:MergeOnRead",
        python=OWN_PYTHON,
    ),
    Contestant(
        name=PYHUDI_LOCAL,
        title="pyhudi, no JVM",
        peer="peers.pyhudi_local:PyhudiLocal",
        python=OWN_PYTHON,
    ),
    Contestant(
        name=PARQUET,
        title="Parquet, Spark 4",
        peer="peers.plain_parquet:PlainParquet",
        python=OWN_PYTHON,
    ),
    Contestant(
        name=PARQUET_PARTITIONED,
        title="Parquet in partitions, Spark 4",
        peer="peers.plain_parquet:PartitionedParquet",
        python=OWN_PYTHON,
    ),
    Contestant(
        name="parquet-3.5",
        title="Parquet, Spark 3.5",
        peer="peers.plain_parquet:PlainParquet",
        python=SPARK_35_PYTHON,
    ),
    Contestant(
        name=HUDI,
        title="Hudi 1.2.0",
        peer="peers.jvm_hudi:WithoutMetadataTable",
        python=SPARK_35_PYTHON,
        jars=(_HUDI_JAR,),
    ),
    Contestant(
        name=HUDI_MOR,
        title="Hudi 1.2.0, merge-on-read",
        peer="peers.jvm_hudi:MergeOnRead",
        python=SPARK_35_PYTHON,
        jars=(_HUDI_JAR,),
    ),
    Contestant(
        name=HUDI_METADATA,
        title="Hudi 1.2.0 + metadata table",
        peer="peers.jvm_hudi:WithMetadataTable",
        python=SPARK_35_PYTHON,
        jars=(_HUDI_JAR,),
    ),
    Contestant(
        name=DELTA_SPARK,
        title=f"Delta {DELTA}",
        peer="peers.delta:Delta",
        python=SPARK_35_PYTHON,
        jars=(jar("delta-spark"), jar("delta-storage")),
    ),
    Contestant(
        name="iceberg",
        title=f"Iceberg {ICEBERG}",
        peer="peers.iceberg:Iceberg",
        python=SPARK_35_PYTHON,
        jars=(jar("iceberg"),),
    ),
    Contestant(
        name=HUDI_RS,
        title="hudi-rs 0.6.0-rc.1, no JVM",
        peer="peers.hudi_rs:HudiRs",
        python=OWN_PYTHON,
    ),
    Contestant(
        name="delta-rs",
        title="delta-rs, no JVM",
        peer="peers.delta_rs:DeltaRs",
        python=BENCH_PYTHON,
    ),
)
