"""The options of the streamer's sources that ask a database, under the names of JVM Hudi's HoodieStreamer."""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi.config.option import option
from pyhudi.config.options_streamer import older_names
from pyhudi.config.parsers import text


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcOptions:
    """The table of a database that JdbcSource reads."""

    url: str | None = option(
        "hoodie.streamer.jdbc.url",
        aliases=older_names("jdbc.url"),
        parse=text("a URL"),
        default=None,
        doc="The streamer, with JdbcSource: the database, such as `jdbc:postgresql://host:5432/shop` or"
        " `jdbc:sqlite:/path/of/file`.",
    )
    user: str | None = option(
        "hoodie.streamer.jdbc.user",
        aliases=older_names("jdbc.user"),
        parse=text("a name"),
        default=None,
        doc="The streamer, with JdbcSource: the user of the database.",
    )
    password: str | None = option(
        "hoodie.streamer.jdbc.password",
        aliases=older_names("jdbc.password"),
        parse=text("a password"),
        default=None,
        doc="The streamer, with JdbcSource: the password of the user.",
    )
    password_file: str | None = option(
        "hoodie.streamer.jdbc.password.file",
        aliases=older_names("jdbc.password.file"),
        parse=text("the path or URI of a file"),
        default=None,
        doc="The streamer, with JdbcSource: a file with the password.",
    )
    table: str | None = option(
        "hoodie.streamer.jdbc.table.name",
        aliases=older_names("jdbc.table.name"),
        parse=text("the name of a table, or a query in parentheses with a name behind it"),
        default=None,
        doc="The streamer, with JdbcSource: the table, or a query as `(SELECT ...) name`.",
    )
    column: str | None = option(
        "hoodie.streamer.jdbc.table.incr.column.name",
        aliases=older_names("jdbc.table.incr.column.name"),
        parse=text("a column"),
        default=None,
        doc="The streamer, with JdbcSource: the column whose values grow with each change of a row. It should have an"
        " index.",
    )
    is_incremental: bool = option(
        "hoodie.streamer.jdbc.incr.pull",
        aliases=older_names("jdbc.incr.pull"),
        default=False,
        doc="The streamer, with JdbcSource: whether a batch has the rows with newer values of that column. Otherwise"
        " each batch has the whole table.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcSchemaOptions:
    """The table of a database that says the columns of the rows, with JdbcbasedSchemaProvider."""

    url: str | None = option(
        "hoodie.streamer.schemaprovider.source.schema.jdbc.connection.url",
        aliases=older_names("schemaprovider.source.schema.jdbc.connection.url"),
        parse=text("a URL"),
        default=None,
        doc="The streamer, with JdbcbasedSchemaProvider: the database, such as `jdbc:postgresql://host:5432/shop`.",
    )
    user: str | None = option(
        "hoodie.streamer.schemaprovider.source.schema.jdbc.username",
        aliases=older_names("schemaprovider.source.schema.jdbc.username"),
        parse=text("a name"),
        default=None,
        doc="The streamer, with JdbcbasedSchemaProvider: the user of the database.",
    )
    password: str | None = option(
        "hoodie.streamer.schemaprovider.source.schema.jdbc.password",
        aliases=older_names("schemaprovider.source.schema.jdbc.password"),
        parse=text("a password"),
        default=None,
        doc="The streamer, with JdbcbasedSchemaProvider: the password of the user.",
    )
    table: str | None = option(
        "hoodie.streamer.schemaprovider.source.schema.jdbc.dbtable",
        aliases=older_names("schemaprovider.source.schema.jdbc.dbtable"),
        parse=text("the name of a table"),
        default=None,
        doc="The streamer, with JdbcbasedSchemaProvider: the table whose columns are those of the rows."
        " They may be null.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOptions:
    """The query that SqlSource and SqlFileBasedSource run."""

    query: str | None = option(
        "hoodie.streamer.source.sql.sql.query",
        aliases=older_names("source.sql.sql.query"),
        parse=text("a query"),
        default=None,
        doc="The streamer, with SqlSource: a query in the SQL of DuckDB.",
    )
    file: str | None = option(
        "hoodie.streamer.source.sql.file",
        aliases=older_names("source.sql.file"),
        parse=text("the path or URI of a file"),
        default=None,
        doc="The streamer, with SqlFileBasedSource: a file with such a query.",
    )
    emits_checkpoint: bool = option(
        "hoodie.streamer.source.sql.checkpoint.emit",
        aliases=older_names("source.sql.checkpoint.emit"),
        default=False,
        doc="The streamer, with SqlFileBasedSource: whether the commit keeps the time of the query, in milliseconds, as"
        " its checkpoint. The query has all its rows again each time, whatever it says.",
    )
