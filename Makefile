# Every target sets up what it needs; `make help` lists them.
PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
STAMP  := $(VENV)/.installed
EXTRAS := spark,connect,java,zookeeper,dynamodb,redis,hbase,hive,hdfs,glue,sqs,kafka,databases,duckdb,telemetry

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-long test-durations test-cluster test-cluster-quick servers test-lowest test-newest test-spark spark-environment test-wheel sim fuzz chaos chaos-streams check changelog fmt interop interop-all interop-quick bench bench-writers bench-services bench-sql bench-indexes bench-ingestion bench-claims bench-scale docs site clean

help:  ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade 'pip>=25.1'
	$(PY) -m pip install --quiet --group dev -e '.[$(EXTRAS)]'
	@touch $@

setup: $(STAMP)  ## Make the virtual environment with everything that demo, test and check need

demo: $(STAMP)  ## Run the main job on real data (NYC flights 2013): load, upsert, delete, pull changes, travel in time
	$(PY) examples/flights.py

test: servers  ## Run the tests that are quick, in twelve minutes (no JVM Hudi needed)
	$(PY) -m pytest $(ALL_TESTS) --part quick --durations=15

test-long: servers  ## Run the rest of the tests: the longer ones, and more cases of each
	$(PY) -m pytest $(ALL_TESTS) --part long --durations=15

test-durations: servers  ## Run all tests, and record which are long
	$(PY) -m pytest $(ALL_TESTS) --record-durations

ALL_TESTS := tests --ignore=tests/interop --ignore=tests/cluster -n 2 --dist loadgroup

# With SPARK=3.5 or another version, on a cluster of that PySpark.
test-cluster: $(STAMP) $(if $(SPARK),spark-environment)  ## Run a Spark standalone cluster of two workers, and kill its executors while they write to S3
	@$(PY) tools/minio.py || echo "the tests on S3 will be skipped"
	@$(PY) tools/server_jars.py || echo "the test with Kafka will be skipped"
	$(if $(SPARK),.venvs/spark/bin/python,$(PY)) -m pytest tests/cluster

test-cluster-quick: $(STAMP)  ## The part of test-cluster that CI runs
	@$(PY) tools/minio.py || echo "the test will be skipped"
	$(PY) -m pytest tests/cluster -m quick

servers: $(STAMP)
	@$(PY) tools/minio.py || echo "the tests on S3 will be skipped"
	@$(PY) tools/prometheus.py || echo "the test with a real Prometheus will be skipped"
	@$(PY) tools/server_jars.py || echo "the tests on Kafka, on Hive metastores, or on HDFS, will be skipped"

# An environment of its own for each set of versions, with PYTHON. The simulator, the examples and the pages do not
# depend on versions of packages, so the tests of these are left out.
OTHER_VERSIONS := tests/unit tests/golden tests/security tests/spark --ignore=tests/unit/testing

test-lowest:  ## Run the tests with the lowest version of each dependency that pyproject.toml allows
	$(PYTHON) -m venv --clear .venvs/lowest
	$(PYTHON) tools/lowest.py > .venvs/lowest/constraints.txt
	$(PYTHON) tools/lowest.py tools > .venvs/lowest/tools.txt
	.venvs/lowest/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	.venvs/lowest/bin/python -m pip install --quiet -r .venvs/lowest/tools.txt -e '.[$(EXTRAS)]' -c .venvs/lowest/constraints.txt
	.venvs/lowest/bin/python -m pytest $(OTHER_VERSIONS) -n 2 --dist loadgroup

test-newest:  ## Run the tests with the newest version of each dependency
	$(PYTHON) -m venv --clear .venvs/newest
	$(PYTHON) tools/lowest.py tools > .venvs/newest/tools.txt
	.venvs/newest/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	.venvs/newest/bin/python -m pip install --quiet -r .venvs/newest/tools.txt -e '.[$(EXTRAS)]'
	.venvs/newest/bin/python -m pytest $(OTHER_VERSIONS) -n 2 --dist loadgroup

comma := ,
test-spark: spark-environment  ## Run the tests on Spark with PySpark SPARK (4.0); Spark Connect is not for 3.5
	.venvs/spark/bin/python -m pytest tests/spark

spark-environment:
	$(PYTHON) -m venv --clear .venvs/spark
	.venvs/spark/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	.venvs/spark/bin/python -m pip install --quiet --group test -e '.[$(if $(filter 3.%,$(SPARK)),$(subst connect$(comma),,$(EXTRAS)),$(EXTRAS))]' 'pyspark==$(or $(SPARK),4.0).*'

# As the release workflow does it: in a copy of the checkout, in which nothing of src can be imported.
WHEEL := .venvs/wheel
test-wheel:  ## Build wheel and sdist, and try the wheel without the checkout: each extra, examples, README and pages, with PySpark SPARK (4)
	rm -rf $(WHEEL)
	$(PYTHON) -m venv $(WHEEL)/build
	$(WHEEL)/build/bin/python -m pip install --quiet build
	$(WHEEL)/build/bin/python -m build --outdir $(WHEEL)/dist
	$(PYTHON) tools/check_wheel.py $(WHEEL)/dist/*.whl
	$(PYTHON) tools/extras.py $(WHEEL)/dist/*.whl
	$(PYTHON) -m venv $(WHEEL)/installed
	$(WHEEL)/installed/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(WHEEL)/installed/bin/python -m pip install --quiet "$$(ls $(WHEEL)/dist/*.whl)[spark,java,duckdb,databases]" 'pyspark==$(or $(SPARK),4).*'
	$(WHEEL)/installed/bin/python -m pip check
	cd / && $(CURDIR)/$(WHEEL)/installed/bin/pyhudi --version
	mkdir $(WHEEL)/folder
	for example in upsert two_writers compaction_service incremental_pull warehouse incremental_etl late_partners; do \
		(cd $(WHEEL)/folder && ../installed/bin/python -W error ../../../examples/$$example.py) || exit 1; done
	git clone --quiet . $(WHEEL)/checkout
	rm -rf $(WHEEL)/checkout/src
	cd $(WHEEL)/checkout && ../installed/bin/python -m pip install --quiet --group test
	cd $(WHEEL)/checkout && ../installed/bin/python -m pytest tests/unit/test_readme.py tests/docs/test_code_blocks.py tests/spark/test_docs.py

check: $(STAMP)  ## Lint, types, architecture, generated pages, links, changelog
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	MYPYPATH=benchmarks $(VENV)/bin/mypy benchmarks
	$(PY) tools/option_reference.py --check
	$(PY) tools/api_reference.py --check
	$(PY) tools/procedure_reference.py --check
	$(VENV)/bin/towncrier build --draft --version next > /dev/null
	$(PY) -m pytest -q tests/unit/test_architecture.py tests/docs/test_references.py tests/docs/test_changelog.py

changelog: $(STAMP)  ## Show what the next release changes for users
	@$(VENV)/bin/towncrier build --draft --version next 2> /dev/null

fmt: $(STAMP)  ## Format the code
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

sim: $(STAMP)  ## Run concurrent writers through every order, crash and fault that fits into MINUTES (10), with SEED (1)
	$(PY) -m pyhudi.testing --minutes $(or $(MINUTES),10) --seed $(or $(SEED),1) --processes $(or $(PROCESSES),2)

fuzz: $(STAMP)  ## Feed every parser damaged inputs: INPUTS (100000) of them in all, from SEED (1)
	$(PY) -m tests.fuzz --inputs $(or $(INPUTS),100000) --seed $(or $(SEED),1)

chaos: $(STAMP)  ## Kill random ones of WRITERS (8) processes on one table for MINUTES (10); STORE=local or s3, TABLES=mor9
	$(PY) -m tests.chaos --minutes $(or $(MINUTES),10) --store $(or $(STORE),local) --writers $(or $(WRITERS),8) \
		--tables $(or $(TABLES),mor9) --seed $(or $(SEED),1)

chaos-streams: $(STAMP)  ## Kill a stream KILLS (100) times, over both kinds of tables, inserts and upserts
	$(PY) -m tests.chaos.streams --kills $(or $(KILLS),100) --seed $(or $(SEED),1)

interop: $(STAMP)  ## Prove reads and writes against JVM Hudi 0.15.0, 1.0.2 and 1.2.0 (fetches them from Maven Central once)
	$(PY) tools/oracle/setup.py
	$(PY) -m pytest tests/interop -m "not thorough"

interop-all: $(STAMP)  ## All of interop; some 40 minutes on two quiet cores
	$(PY) tools/oracle/setup.py
	$(PY) -m pytest tests/interop

interop-quick: $(STAMP)  ## The part of interop that CI runs
	$(PY) tools/oracle/setup.py
	$(PY) -m pytest tests/interop -m quick

bench: $(STAMP)  ## Measure against JVM Hudi, Delta, Iceberg, delta-rs and plain Parquet (SF=0.5 by default), and count requests to S3 beside JVM Hudi
	$(PY) benchmarks/run.py --scale-factor $(or $(SF),0.5)
	$(PY) benchmarks/reads_on_s3.py
	$(PY) benchmarks/writes_on_s3.py

bench-writers: $(STAMP)  ## Measure 1, 2 and 8 writer processes on one table
	$(PY) benchmarks/writers.py --store $(or $(STORE),local)

bench-services: $(STAMP)  ## Measure clean, archiving and clustering of 1,000 file groups against JVM Hudi
	$(PY) tools/oracle/setup.py
	$(PY) benchmarks/services.py

bench-sql: $(STAMP)  ## Measure statements of SQL, streams and captured changes against JVM Hudi and Delta
	$(PY) benchmarks/setup.py
	$(PY) benchmarks/sql_statements.py
	for one in cow mor; do $(PY) benchmarks/row_changes.py 1000000 $$one; $(PY) benchmarks/change_data.py 500000 $$one; done
	$(PY) benchmarks/streams.py --batches 150

bench-indexes: $(STAMP)  ## Measure indexes: lookups, HFiles, the files partition, small commits, and all against JVM Hudi
	for one in lookup hfile files build commit; do $(PY) benchmarks/indexes.py $$one; done
	$(PY) benchmarks/setup.py
	$(PY) benchmarks/index_rivals.py
	$(PY) benchmarks/many_files.py
	$(PY) benchmarks/many_groups.py

bench-ingestion: $(STAMP)  ## Measure the streamer: decoding, upserts against JVM Hudi, freshness (with WRITE_DOCS=1 onto the page), many tables
	$(PY) tools/oracle/setup.py
	$(PY) benchmarks/ingestion.py $(or $(ROWS),1000000) $(if $(WRITE_DOCS),--write-docs)
	for one in 1000 6000; do $(PY) benchmarks/many_tables.py $$one 100; done
	$(PY) benchmarks/live_tables.py $(or $(SECONDS),600)
	$(PY) benchmarks/steady_table.py $(or $(SECONDS),600)

bench-claims: $(STAMP)  ## Measure what users of Hudi have said that it does for them (with WRITE_DOCS=1 onto its page): bytes, upkeep, growth, even work, delays, bootstraps
	$(PY) benchmarks/claims.py $(if $(WRITE_DOCS),--write-docs)
	$(PY) benchmarks/attribution_rate.py
	$(PY) benchmarks/stream_join.py

bench-scale: $(STAMP)  ## Measure how an upsert grows with the file groups that it touches, splits of its input, and keys, and of half its rows with one key; also on two workers
	$(PY) tools/minio.py
	$(PY) benchmarks/growth.py
	$(PY) benchmarks/growth.py --engine cluster
	$(PY) benchmarks/many_keys.py
	$(PY) benchmarks/hot_key.py

docs: $(STAMP)  ## Write the generated pages (options, API)
	$(PY) tools/option_reference.py
	$(PY) tools/api_reference.py
	$(PY) tools/procedure_reference.py

site: $(STAMP)  ## Build the documentation site into build/site; a link that leads nowhere fails
	$(PY) tools/site.py build/pages
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --quiet --strict

clean:  ## Remove everything that the targets made
	rm -rf $(VENV) .venvs .oracle .tools .bench artifacts demo-table build
