# aiokafka_lite: `make` lists what can be made. Nothing but Python >= 3.11 needs to be there.

VENV  := .venv
BIN   := $(VENV)/bin
DONE  := $(VENV)/.done
FLAGS ?=
PYSPARK := 4.2.0
# Unit tests wait more than they work: a few processes share the waiting. Where each process has
# brokers of its own there are two, and a file stays with one of them: it shares what it starts.
PARALLEL := -n 6
WITH_BROKERS := -n 2 --dist loadfile --no-loadscope-reorder
# What has a native module and a twin; all else is the same in both builds.
TWINS := record net producer consumer
# `make test` runs two parts at a time, the longest first.
PARTS := test-real test-spark test-fast test-pure
GATES  = $(BIN)/python -m tools.gates --logs $(DONE)/logs --made $(DONE)/spark --made $(DONE)/archive

# pytest rewrites the assertions of 480 files: once, rather than in each process of each part.
export PYTHONDONTWRITEBYTECODE :=

NATIVE_SOURCES := $(shell find aiokafka_lite -name '*.pyx' -o -name '*.pxd' -o -name '*.h')
PIP   := $(BIN)/python -m pip install -q --disable-pip-version-check
QUIET := > $(DONE)/install.log 2>&1 || { cat $(DONE)/install.log; exit 1; }

.PHONY: help venv demo pipeline check test test-fast test-pure test-asan test-real test-spark test-conformance test-brokers explore interop oracle fuzz chaos chaos-producer chaos-consumer chaos-transactions chaos-exactly-once spark-judge lint format bench \
        kafka clean
.DEFAULT_GOAL := help

help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

# -- the virtual environment; a stamp for each layer of it, so that a second run is quick

$(DONE)/made: tools/make_venv.sh
	@sh tools/make_venv.sh $(VENV)
	@mkdir -p $(DONE) && touch $@

$(DONE)/build-tools: $(DONE)/made pyproject.toml
	@echo "installing the build tools"
	@$(PIP) 'setuptools>=77' 'Cython>=3.1' && touch $@

$(DONE)/native: $(DONE)/build-tools setup.py $(NATIVE_SOURCES)
	@echo "compiling the native hot paths (without a C compiler their pure-Python twins are used)"
	@$(BIN)/python setup.py build_ext --inplace > $(DONE)/build.log 2>&1 \
		|| { cat $(DONE)/build.log; exit 1; }
	@find aiokafka_lite -name '*.pyx' | sort | while read source; do \
		ls "$${source%.pyx}".*.so > /dev/null 2>&1 && state=compiled \
			|| state="NOT compiled (see $(DONE)/build.log): its twin is used"; \
		echo "    $$source: $$state"; done
	@touch $@

$(DONE)/demo: $(DONE)/native
	@echo "installing aiokafka_lite[cli]"
	@$(PIP) --no-build-isolation -e '.[cli]' $(QUIET)
	@touch $@

$(DONE)/dev: $(DONE)/native
	@echo "installing aiokafka_lite[dev]"
	@$(PIP) --no-build-isolation -e '.[dev]' $(QUIET)
	@touch $@

# The other clients, for comparison: without them only the tests that use them are skipped.
$(DONE)/interop: $(DONE)/dev
	@echo "installing aiokafka_lite[interop]"
	@$(PIP) --no-build-isolation -e '.[interop]' > $(DONE)/install.log 2>&1 \
		|| echo "NOT INSTALLED: tests against other clients will be skipped"
	@touch $@

# Spark, at the release whose own Kafka connector ours is judged beside (500 MB). Where it is not to
# be had the tests with Spark are skipped, each with a word.
$(DONE)/spark: $(DONE)/interop
	@echo "installing aiokafka_lite[spark] (pyspark is large: a minute or two)"
	@$(PIP) --no-build-isolation -e '.[spark]' 'pyspark[connect]==$(PYSPARK)' > $(DONE)/install.log 2>&1 \
		&& touch $@ || echo "NOT INSTALLED (see $(DONE)/install.log): tests with Spark will be skipped"

# Classes as a broker has loaded them: each Java of the tests starts in half the time.
$(DONE)/archive: $(DONE)/interop
	@$(BIN)/python -m tools.kafka.archive && touch $@ || echo "NOT MADE: Kafka starts later in each test"

# The same without what only development needs.
$(DONE)/pipeline: $(DONE)/demo
	@$(BIN)/python -c "from aiokafka_lite.spark.pipeline.java import main; raise SystemExit(main())"
	@echo "installing aiokafka_lite[cli,spark] (pyspark is large: a minute or two)"
	@$(PIP) --no-build-isolation -e '.[cli,spark]' 'pyspark==$(PYSPARK)' $(QUIET)
	@touch $@

venv: $(DONE)/spark ## Everything for development, in .venv

# -- use

demo: $(DONE)/demo ## 200,000 records through a broker and back; BOOTSTRAP=host:port for a real one
	@$(BIN)/python -m aiokafka_lite demo $(if $(BOOTSTRAP),--bootstrap $(BOOTSTRAP)) $(FLAGS)

pipeline: $(DONE)/pipeline ## Orders by the minute, from Kafka through Spark and back, checked; needs Java 17
	@$(BIN)/python -m aiokafka_lite pipeline demo $(FLAGS)

kafka: $(DONE)/dev ## A real Kafka in the foreground; FLAGS="--nodes 3 --version 3.9.2"
	@$(BIN)/python -m tools.kafka $(FLAGS)

# -- tests; FLAGS="-k name -x" goes to pytest

test: $(DONE)/spark $(DONE)/archive ## All tests but the old brokers', in both builds, on a real Kafka where one can be had
	@$(GATES) $(PARTS)

check: $(DONE)/spark $(DONE)/archive ## make lint and make test, with one summary: what CI runs
	@$(GATES) $(PARTS) lint

test-fast: $(DONE)/spark ## What needs neither Kafka nor Java
	$(BIN)/pytest -m "not real and not java and not brokers and not spark" -q $(PARALLEL) $(FLAGS)

test-pure: $(DONE)/spark ## The unit tests of what has pure-Python twins, on those
	AIOKAFKA_LITE_PURE=1 $(BIN)/pytest $(TWINS:%=tests/unit/%) tests/unit/test_build.py \
		-m "not real and not java and not spark" -q $(PARALLEL) $(FLAGS)

test-asan: $(DONE)/dev ## The native modules under AddressSanitizer (gcc); PROGRAMS=20000 SUITES="tests/unit/record"
	SUITES="$(SUITES)" PROGRAMS=$(PROGRAMS) sh tools/test_asan.sh $(BIN)/python build/asan -n 2 $(FLAGS)

test-real: $(DONE)/spark $(DONE)/archive ## What runs a real Kafka, or Java as the judge of bytes
	$(BIN)/pytest -m "(real or java) and not brokers and not spark" $(WITH_BROKERS) $(FLAGS)

test-spark: $(DONE)/spark $(DONE)/archive ## What runs Spark (Java 17 or newer)
	$(BIN)/pytest tests/spark -m "spark and not brokers" $(WITH_BROKERS) $(FLAGS)

explore: $(DONE)/interop ## The random walks from fresh seeds; MINUTES=5, SEED=7 repeats a round
	$(BIN)/python -m tests.explore --minutes $(or $(MINUTES),5) $(if $(SEED),--seed $(SEED)) -- $(FLAGS)

spark-judge: $(DONE)/spark ## Spark at length: 20 million records, a driver killed at nine moments, more beside its connector
	$(BIN)/python -m tools.spark
	SPARK_JUDGE=1 $(BIN)/pytest tests/spark -s $(FLAGS)

test-conformance: $(DONE)/interop ## The same requests to the embedded broker and to a real Kafka: both agree
	$(BIN)/pytest tests/conformance $(FLAGS)

test-brokers: $(DONE)/interop ## The round trip on every old broker, from 0.8.2.2 to 3.9.2
	$(BIN)/pytest -m brokers $(FLAGS)

interop: $(DONE)/interop ## A million records a codec, both ways, with Java and aiokafka, on one and on three brokers
	INTEROP_RECORDS=1000000 $(BIN)/pytest tests/real/test_interop.py -q $(FLAGS)
	INTEROP_RECORDS=1000000 INTEROP_NODES=3 $(BIN)/pytest tests/real/test_interop.py -q $(FLAGS)

oracle: $(DONE)/dev ## Every message and version, byte for byte, against the Java client
	$(BIN)/python -m tools.oracle --all $(FLAGS)

fuzz: $(DONE)/dev ## A million hostile frames; false numbers to clients; misuse of native classes
	$(BIN)/python -m tests.fuzz.protocol $(FLAGS)
	$(BIN)/python -m tests.fuzz.records $(FLAGS)
	$(BIN)/python -m tests.fuzz.native $(FLAGS)
	$(BIN)/python -m tests.fuzz.broker $(FLAGS)
	$(BIN)/python -m tests.fuzz.extremes $(FLAGS)

chaos: $(DONE)/interop ## Brokers die for five minutes a test; nothing acknowledged may be lost; MINUTES=5
	CHAOS_MINUTES=$(or $(MINUTES),5) $(BIN)/pytest tests/faults $(FLAGS)

chaos-producer: $(DONE)/interop ## The producer against three brokers in trouble; SEED=7 MINUTES=5 RATE=15000
	CHAOS_SEED=$(or $(SEED),1) CHAOS_MINUTES=$(or $(MINUTES),5) CHAOS_RATE=$(or $(RATE),15000) \
		CHAOS_SENDERS=$(or $(SENDERS),3000) $(BIN)/pytest tests/faults/test_chaos_producer.py -s $(FLAGS)

chaos-consumer: $(DONE)/interop ## A group of 8 against three brokers in trouble; SEED=7 MINUTES=12 RECORDS=20000000
	CHAOS_SEED=$(or $(SEED),1) CHAOS_MINUTES=$(or $(MINUTES),12) CHAOS_RECORDS=$(or $(RECORDS),20000000) \
		$(BIN)/pytest tests/faults/test_chaos_consumer.py -s $(FLAGS)

chaos-transactions: $(DONE)/interop ## Read, process, write while all around dies; SEED=7 MINUTES=5 RECORDS=5000000 VERSION=3.9.2 PROTOCOL=cooperative
	CHAOS_SEED=$(or $(SEED),1) CHAOS_MINUTES=$(or $(MINUTES),5) CHAOS_RECORDS=$(or $(RECORDS),5000000) \
		$(if $(VERSION),CHAOS_VERSION=$(VERSION)) $(if $(PROTOCOL),CHAOS_PROTOCOL=$(PROTOCOL)) \
		$(BIN)/pytest tests/faults/test_exactly_once_judged.py -s $(FLAGS)

chaos-exactly-once: $(DONE)/interop ## Many short runs of exactly once: random outages, releases, protocols, APIs; RUNS=60 SEED=1 PARALLEL_RUNS=2
	$(BIN)/python -m tests.faults.exactly_once_runs --runs $(or $(RUNS),60) --seed $(or $(SEED),1) \
		--parallel $(or $(PARALLEL_RUNS),2) $(FLAGS)

bench: $(DONE)/interop ## CPU and throughput beside aiokafka and confluent-kafka
	$(BIN)/python -m benchmarks $(FLAGS)

# -- the gates

lint: $(DONE)/spark ## ruff, mypy --strict, the floors (import-linter), fresh generated code and docs
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.protocol_gen --check --if-available
	$(BIN)/python -m tools.broker_docs --check
	$(BIN)/python -m tools.spark_docs --check

format: $(DONE)/dev ## Let ruff put the code in order
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean: ## Remove everything that was made here
	rm -rf $(VENV) build dist *.egg-info .hypothesis .explore .pytest_cache .mypy_cache .ruff_cache \
		.import_linter_cache .grimp_cache
	find aiokafka_lite \( -name '*.so' -o -name __pycache__ \) -prune -exec rm -rf {} +
