"""What `import pyhudi` promises: a change here is a change for users."""

from __future__ import annotations

import importlib.util
import inspect
import subprocess
import sys

import pytest

import pyhudi

NEEDS_SPARK = {"disable", "enable", "spark_session"}
NOUNS = {"Alter", "Indexes", "Inspect", "Recovery", "Savepoints", "Services"}
TAKEN = {"HudiOptions", "KeyStore", "RowsLike", "Where"}
RETURNED = {
    "Archived",
    "BuiltIndex",
    "Cleaned",
    "ColumnsChanged",
    "Copied",
    "Expired",
    "Exported",
    "IndexUse",
    "Merge",
    "OptionWarning",
    "Outcome",
    "Progress",
    "Restored",
    "RolledBack",
    "Savepoint",
    "Scan",
    "ScanExplanation",
    "TableDetail",
    "TableSizes",
    "VersionChanged",
    "Watermark",
    "WriteResult",
}
PUBLIC = {
    "HudiTable",
    "__version__",
    "check_folder",
    "check_machine",
    "check_store",
    "errors",
    "metrics",
    "save",
    "show_progress",
    *NEEDS_SPARK,
    *NOUNS,
    *TAKEN,
    *RETURNED,
}


def test_public_names_are_these_and_no_others():
    assert set(pyhudi.__all__) == PUBLIC


@pytest.mark.parametrize("name", sorted(NEEDS_SPARK))
def test_name_that_needs_spark_says_without_pyspark_what_to_install(name: str):
    """A process of its own: in this one PySpark may be loaded."""
    program = f"import sys; sys.modules['pyspark'] = None; import pyhudi; pyhudi.{name}"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (
        f"UnsupportedFeatureError: pyhudi.{name} needs PySpark 3.5 or newer: pip install 'pyhudi[spark]'" in run.stderr
    )


def test_public_names_are_sorted():
    assert pyhudi.__all__ == sorted(pyhudi.__all__)


@pytest.mark.parametrize("name", sorted(pyhudi.__all__))
def test_public_name_is_there_and_says_what_it_is(name):
    if name in NEEDS_SPARK and importlib.util.find_spec("pyspark") is None:
        pytest.skip("pyspark is not installed")
    value = getattr(pyhudi, name)
    assert isinstance(value, str) or inspect.getdoc(value)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = pyhudi.nothing


@pytest.mark.parametrize("member", [name for name in vars(pyhudi.HudiTable) if not name.startswith("_")])
def test_public_method_of_a_table_is_documented(member):
    assert inspect.getdoc(inspect.getattr_static(pyhudi.HudiTable, member))
