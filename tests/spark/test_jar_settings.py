"""Settings of a job for Hudi's jar: refused by name where the jar is not there, and left alone where it is."""

from __future__ import annotations

from typing import Any

import pytest

import pyhudi
from pyhudi.errors import ConfigError
from pyhudi.spark.jar_settings import failing_settings

REGISTRATOR = {"spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar"}
CATALOG = {"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog"}
BUNDLE = {"spark.jars.packages": "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.0.2"}
OF_OTHERS = {
    "spark.kryo.registrator": "a.Registrator",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.jars.packages": "io.delta:delta-spark_2.12:3.3.0",
}


@pytest.mark.parametrize(
    ("given", "scala", "has_jar", "failing"),
    [
        (REGISTRATOR | CATALOG, "2.13.17", False, REGISTRATOR | CATALOG),
        (REGISTRATOR | CATALOG | BUNDLE, "2.12.18", True, {}),
        (REGISTRATOR | CATALOG | BUNDLE, "2.13.17", True, BUNDLE),
        ({"spark.jars": "/a/hudi-spark3.5-bundle_2.12-1.0.2.jar,/b.jar"}, "2.12.18", True, {}),
        (
            {"spark.jars": "/a/hudi-spark3.5-bundle_2.12-1.0.2.jar,/b.jar"},
            "2.13.17",
            True,
            {"spark.jars": "/a/hudi-spark3.5-bundle_2.12-1.0.2.jar,/b.jar"},
        ),
        ({"spark.kryo.registrator": "a.R, org.apache.spark.HoodieSparkKryoRegistrar"}, "2.13.17", True, {}),
        (OF_OTHERS, "2.13.17", False, {}),
        ({}, "2.13.17", False, {}),
    ],
)
def test_settings_fail_where_their_jar_is_missing_or_for_another_scala(
    given: dict[str, str], scala: str, has_jar: bool, failing: dict[str, str]
) -> None:
    classes = {"org.apache.spark.HoodieSparkKryoRegistrar", *CATALOG.values()} if has_jar else set()

    assert failing_settings(given, is_there=classes.__contains__, scala_of_spark=lambda: scala) == failing


def test_session_with_the_catalog_of_a_missing_jar_is_refused_by_the_setting(spark: Any) -> None:
    session = spark.newSession()
    for name, value in CATALOG.items():
        session.conf.set(name, value)

    with pytest.raises(ConfigError, match=r"delete spark\.sql\.catalog\.spark_catalog from the job") as raised:
        pyhudi.enable(session)
    assert raised.value.context == CATALOG
    session.conf.unset("spark.sql.catalog.spark_catalog")
    assert pyhudi.enable(session) is session
