# make demo and make test do all set-up themselves; make quick while you work, make lint test before
# a commit. Needs JDK 17, 21 or 25, Python 3.10 or newer, and Maven or sbt; make venv quick needs only
# Python. With SPARK=4.3 or SPARK=4.1 all is done for that version of Spark.
SHELL := bash
.NOTPARALLEL:
.PHONY: install venv jar jars demo quick test fresh simulate simulate-conversation fuzz sanitize golden lint lint-python counts format bench docs docs-tables dist release-check smoke clean needs-python needs-jdk

VERSIONS := python/keystate/versions.properties
FACTS := python/keystate/errors.json python/keystate/settings.json
include $(VERSIONS)

PYTHON ?= python3
DEFAULT := $(basename $(firstword $(sparks)))
# A line, or one of its patches that are tested too: then PySpark is of that patch.
SPARK ?= $(DEFAULT)
spark := $(or $(filter $(SPARK).%,$(sparks)),$(filter $(SPARK),$(sparks) $(patches)))
$(if $(spark),,$(error SPARK=$(SPARK): the supported ones are $(basename $(sparks)) $(patches)))
PATCH := $(filter-out $(sparks),$(spark))
override SPARK := $(basename $(spark))
export SPARK

ifeq ($(spark),$(firstword $(sparks)))
VENV := .venv
else
VENV := .venv-spark$(or $(PATCH),$(SPARK))
endif
BIN := $(VENV)/bin
JAR := python/keystate/jars/keystate-spark$(SPARK)_$(basename $(scala))-$(keystate).jar

# Whatever a command starts compiles a module that it imports once, also where the outside forbids it.
export PYTHONDONTWRITEBYTECODE =

# Spark before 4.3 does not support pandas 3.
pandas := $(if $(filter 4.1 4.2,$(SPARK)),'pandas<3','pandas>=3')

install: needs-jdk jar venv

# All that a change in Python needs until it is tested in a query. No sbt, no jar.
venv: $(VENV)/installed

ifeq ($(PATCH),)
jar: needs-jdk $(JAR)
	@echo '$(JAR) is the jar. Whoever installed python/ before it was there installs it again: pip install ./python'
else
jar:
	$(MAKE) jar SPARK=$(SPARK)
endif

# What is missing is said in one line, before anything long begins.
javas := $(or $(javas$(SPARK)),$(javas))
pythons := $(or $(pythons$(SPARK)),$(pythons))
needs-python needs-jdk: needs-%:
	@PYTHON='$(PYTHON)' SPARK=$(SPARK) javas='$(javas)' pythons='$(pythons)' goals='$(or $(MAKECMDGOALS),install)' \
	  project/needs.sh $*

# For every supported Spark.
jars:
	for line in $(basename $(sparks)); do $(MAKE) jar SPARK=$$line || exit; done

# Directories are prerequisites too: they change when a file goes. It is compiled against the jars of
# PySpark, so Spark is downloaded once.
$(JAR): build.sbt project/plugins.sbt $(VERSIONS) $(FACTS) $(shell find engine/src/main jvm/src/main)
$(JAR): $(VENV)/installed
	@echo '== The jar, by sbt, which fetches itself and Scala the first time (150 MB): about two minutes'
	./sbt package
	rm -rf python/build # or the next wheel would have the older jars in it too

# An environment takes a third of the CPU time that the pip of an older Python takes: the newest one
# resolves faster, nothing is compiled that nobody imports, and Spark's jars are not compressed again.
# In a terminal pip shows how far each download is; elsewhere it names them.
pip_install := project/pip.sh $(BIN)/pip install --no-compile

# The tests run on the Spark that the jar is built for, not on the newest one it serves.
$(VENV)/installed: python/pyproject.toml python/setup.py python/keystate/_compiled/native.c $(VERSIONS) | needs-python
	@echo '== PySpark $(spark) and the tools, into $(VENV): 800 MB, about two minutes'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(pip_install) --config-settings=--build-option=--compression=stored pyspark==$(spark)
	$(pip_install) --editable 'python[demo,dev]' pyspark==$(spark) $(pandas)
	touch $@

$(VENV)/installed-bench: $(VENV)/installed
	$(pip_install) --editable 'python[bench]' pyspark==$(spark) $(pandas)
	touch $@

$(VENV)/installed-docs: $(VENV)/installed
	$(pip_install) --editable 'python[docs]' pyspark==$(spark) $(pandas)
	touch $@

$(VENV)/installed-dist: $(VENV)/installed
	$(pip_install) --editable 'python[dist]' pyspark==$(spark) $(pandas)
	touch $@

demo: install
	@echo '== A year of flights as a stream, stopped, rescaled and drawn: about three minutes'
	$(BIN)/python -m examples.flights

define lint_python
$(BIN)/ruff check
$(BIN)/ruff format --check
$(BIN)/mypy
endef

# While you work: no JVM, no jar. JAVA_HOME: a test that starts a JVM and lacks the mark fails.
quick: export JAVA_HOME = /none
quick: venv
	$(lint_python)
	$(BIN)/pytest -n auto --dist worksteal -q -m 'not spark and not long'

# What is tested on a Spark that is not the default one, unless SLOW is set: what touches Spark most.
CHOSEN_SUITES := *ProviderSuite *BehaviourSuite *ScalaApiSuite \
  *BroadcastApiSuite *SparkOperatorsSuite *PackagesSuite *RealTimeSuite
CHOSEN_TESTS := tests/contract tests/golden tests/query/test_session.py \
  tests/query/test_real_time.py tests/query/test_real_time_contract.py \
  tests/query/test_real_time_packed.py tests/query/test_real_time_plans.py \
  tests/query/test_real_time_elastic.py tests/fault/test_real_time_kills.py

# JDK=25: tests run on that Java, on the default Spark a few of them unless SLOW is set: what depends
# on Java.
JDK ?=
ifneq ($(JDK),)
TEST_JAVA := $(shell tests/jdk.sh $(JDK))
$(if $(TEST_JAVA),,$(error JDK=$(JDK): there is none, JAVA_HOME_$(JDK)_X64 would name it))
endif
JDK_SUITES := *KeyGroupStateStoreProviderSuite *ScalaApiSuite
JDK_TESTS := tests/query/test_doctor.py tests/query/test_local.py tests/rescale/test_rescale.py
CHOSEN_JDK := tests/query/test_session.py tests/golden

# In so many processes, each with a Spark session of its own: one more than there are cores in CI, for
# each waits a third of its time. ONLY is for pytest's -m, in place of all tests.
WORKERS ?= 3
ONLY ?=

SBT_TEST := test
ifneq ($(SLOW),)
else ifneq ($(PATCH),)
SBT_TEST := # they would run with the Spark that the jar is built for
TESTS := $(CHOSEN_TESTS)
else ifneq ($(SPARK),$(DEFAULT))
SBT_TEST := $(if $(CHOSEN_SUITES),"jvm/testOnly $(CHOSEN_SUITES)")
TESTS := $(CHOSEN_TESTS) $(if $(JDK),$(JDK_TESTS))
else ifneq ($(JDK),)
SBT_TEST := "jvm/testOnly $(JDK_SUITES)"
TESTS := $(CHOSEN_JDK) $(JDK_TESTS)
endif

# Its parts are in tests/__main__.py: what needs no JVM first.
LOGS := target/spark$(or $(PATCH),$(SPARK))$(if $(JDK),-jdk$(JDK))
ifneq ($(JDK),)
test: export KEYSTATE_TEST_JAVA = $(TEST_JAVA)
endif
test: export KEYSTATE_TURNS = 1
test: export KEYSTATE_TEST_CLASSES = $(CURDIR)/$(LOGS)/classes.jsa
test: needs-jdk venv
	$(BIN)/python -m tests --title 'Spark $(spark)$(if $(JDK), and JDK $(JDK))' --logs $(LOGS) \
	  --suites '$(SBT_TEST)' --tests '$(TESTS)' --only '$(ONLY)' --workers $(WORKERS) --java '$(TEST_JAVA)'

# All that README says, in a bare Debian root of its own: needs debootstrap and root. ON is its release.
ON ?= bookworm
TRY ?=
fresh:
	$(PYTHON) -m tests.fresh $(ON) $(TRY)

# The store in a simulated world, by seed (docs/simulation.md): so many seeds, from this one on. With
# MUTATIONS=all how many seeds it takes to find each fault that is put into the protocol on purpose.
# Unlike a suite it runs long enough to be optimized.
SEEDS ?= 1000
FIRST ?= 0
MUTATIONS ?=
simulate:
	./sbt 'set engine / Test / javaOptions -= "-XX:TieredStopAtLevel=1"' \
	  "engine/Test/runMain keystate.simulation.Simulate $(SEEDS) $(FIRST) $(MUTATIONS)"

# The conversation of tasks and Python workers likewise.
simulate-conversation: venv
	./sbt 'set jvm / Test / javaOptions -= "-XX:TieredStopAtLevel=1"' \
	  "jvm/Test/runMain org.apache.spark.sql.keystate.python.simulation.Simulate $(SEEDS) $(FIRST) $(MUTATIONS)"

# Random programs against models, from seed FIRST on, each kind for so many seconds: in the harness,
# as queries, and features in shapes of a plan.
FUZZ_SECONDS ?= 600
fuzz: $(VENV)/installed
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) --seed $(FIRST)
	$(BIN)/python -m tests.fuzz --layer query --seconds $(FUZZ_SECONDS) --seed $(FIRST)
	$(BIN)/python -m tests.matrix --seconds $(FUZZ_SECONDS) --seed $(FIRST)

# The tests of what is compiled, with sanitizers that end them at the first bad access to memory and
# at the first undefined behaviour. PYTHONMALLOC: so that each object is memory of its own.
SANITIZED := $(LOGS)/sanitized
CHECKED_TESTS := $(addprefix tests/contract/test_,compiled.py slot_values.py harness.py map_keys.py \
  dead_letters.py)
sanitize: $(VENV)/installed
	rm -rf $(SANITIZED) && mkdir -p $(SANITIZED) && cp -rs $(CURDIR)/python/keystate $(SANITIZED)/
	rm -f $(SANITIZED)/keystate/_compiled/*.so
	$(CC) -shared -fPIC -g -O1 -fno-omit-frame-pointer -fsanitize=address,undefined \
	  -fno-sanitize-recover=undefined \
	  -I$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("include"))') \
	  -o $(SANITIZED)/keystate/_compiled/native.so python/keystate/_compiled/native.c
	PYTHONPATH=$(SANITIZED) PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 \
	  LD_PRELOAD=$$($(CC) -print-file-name=libasan.so) \
	  $(BIN)/python -m pytest -p no:cacheprovider $(CHECKED_TESTS)

# The checkpoints in tests/golden that SPARK writes, anew: after a change of the file format.
golden: install
	$(BIN)/python -m tests.golden

lint: needs-jdk venv lint-python
	./sbt scalafmtSbtCheck scalafmtCheckAll Test/compile

lint-python: venv
	$(lint_python)

# Lines, packages, imports, inheritance and words, with their limits; a test holds them too.
counts:
	$(PYTHON) tests/counts.py

format: $(VENV)/installed
	./sbt scalafmtSbt scalafmtAll
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# With SCALE=0.01 on a hundredth of the rows and keys, to see that it works.
SCALE ?= 1
REPS ?= 3
bench: install $(VENV)/installed-bench
	$(BIN)/python -m bench --scale $(SCALE) --reps $(REPS)

# The tables of pages that are made of python/keystate/*.json, and that of what is tested.
docs-tables:
	$(PYTHON) -m docs.site.tables
	$(PYTHON) -m docs.site.matrix

# The documentation as a site, to be opened from the folder.
docs: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict # not --quiet: then it takes no warning for an error
	@echo out/site/index.html

# Wheel and source distribution with the jars that are there; make jars builds all of them. The jar
# of SPARK also as a Maven repository, with its POM, its sources and its documentation.
dist: jar $(VENV)/installed-dist
	rm -rf dist python/build
	$(BIN)/python -m build --sdist --outdir dist python
	KEYSTATE_NATIVE=0 $(BIN)/python -m build --wheel --outdir dist python # for every machine
	$(BIN)/twine check --strict dist/*
	./sbt jvm/publish
	@ls python/keystate/jars dist

# A release without its signatures: builds all that is published, and fails on what is missing. TAG is
# that of the release, if it is there.
TAG ?=
release-check: jars dist
	for line in $(filter-out $(SPARK),$(basename $(sparks))); do SPARK=$$line ./sbt jvm/publish || exit; done
	KEYSTATE_NATIVE=1 $(BIN)/pip wheel --quiet --no-deps --wheel-dir dist/compiled dist/keystate-$(keystate).tar.gz
	$(BIN)/python -m release sbom
	$(BIN)/python -m release bundle
	$(BIN)/python -m release check $(TAG)

# Installs the wheel into an empty environment outside of the clone, and runs what a new user does.
smoke:
	$(PYTHON) tests/smoke.py dist/keystate-*.whl 'pyspark==$(SPARK).*'

clean:
	rm -rf dist target engine/target jvm/target project/target project/project python/keystate/jars python/build \
	  python/keystate/_compiled/*.so python/*.egg-info out spark-warehouse metastore_db derby.log .*_cache
