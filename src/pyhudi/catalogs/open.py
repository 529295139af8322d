"""Opening the catalog that options name. A further catalog is a module of its own, and its line here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyhudi.catalogs.protocol import Catalog
from pyhudi.config.options_catalogs import CatalogKind, CatalogOptions


@contextmanager
def opened_catalog(options: CatalogOptions) -> Iterator[Catalog]:
    """The catalog, whose connections are given back behind the block.

    Raises:
        CatalogError: it does not answer.
        UnsupportedFeatureError: a package that it needs is missing; says which.
    """
    catalog: Catalog
    if options.catalog is CatalogKind.GLUE:
        from pyhudi.catalogs.glue import Glue  # noqa: PLC0415 - each loads a package of its own

        catalog = Glue(options.glue_region, options.glue_endpoint)
    else:
        from pyhudi.catalogs.hive_metastore import HiveMetastore  # noqa: PLC0415

        catalog = HiveMetastore(options.metastore_uris)
    try:
        yield catalog
    finally:
        catalog.close()
