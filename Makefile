# make install, then make demo; make lint test before a commit. Needs JDK 17, Python 3.10 or
# newer, and Maven or sbt.
SHELL := bash
.NOTPARALLEL:
.PHONY: install jar demo test lint format bench clean

VERSIONS := python/keystate/versions.properties
include $(VERSIONS)

PYTHON ?= python3
BIN := .venv/bin
JAR := python/keystate/jars/keystate-spark$(basename $(spark))_$(basename $(scala))-$(keystate).jar

install: jar .venv/installed

jar: $(JAR)

# Directories are prerequisites too: they change when a file goes.
$(JAR): build.sbt project/plugins.sbt $(VERSIONS) $(shell find jvm/src/main)
	./sbt package
	rm -rf python/build # or the next wheel would have the older jars in it too

# The tests run on the Spark that the jar is built for, not on the newest one it serves.
.venv/installed: python/pyproject.toml python/setup.py $(VERSIONS)
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable 'python[demo,dev]' pyspark==$(spark)
	touch $@

.venv/installed-bench: .venv/installed
	$(BIN)/pip install --quiet --editable 'python[bench]' pyspark==$(spark)
	touch $@

demo: install
	$(BIN)/python -m examples.flights

# Runs both runners, whatever the first one finds, and repeats which Scala tests failed and how
# each of them closed.
test: install
	@mkdir -p target; set -o pipefail; status=0; \
	./sbt test | tee target/scalatest.log || status=1; \
	$(BIN)/pytest | tee target/pytest.log || status=1; \
	sed -n '/\*\*\* FAILED \*\*\*/,+4p' target/scalatest.log; \
	sed -nE 's/.*succeeded ([0-9]+), failed ([0-9]+), .*ignored ([0-9]+),.*/scalatest: \1 passed, \2 failed, \3 skipped/p' \
	  target/scalatest.log; \
	tail -n 1 target/pytest.log; \
	exit $$status

lint: .venv/installed
	./sbt scalafmtSbtCheck scalafmtCheckAll Test/compile
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: .venv/installed
	./sbt scalafmtSbt scalafmtAll
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: install .venv/installed-bench
	$(BIN)/python -m bench

clean:
	rm -rf target jvm/target project/target project/project python/keystate/jars python/build \
	  python/*.egg-info out spark-warehouse metastore_db derby.log .*_cache
