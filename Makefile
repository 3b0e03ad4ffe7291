# aiokafka_lite: `make` lists the targets. The only requirement is Python >= 3.11.

VENV  := .venv
BIN   := $(VENV)/bin
DONE  := $(VENV)/.done
FLAGS ?=
PYSPARK := 4.2.0
# Unit tests wait for a quarter of their time, and each process takes 9 s to collect all of them. Tests
# with brokers wait more. Each process has its own brokers, but all files on three nodes run in one
# (tests/scheduling.py). All tests of a file run in one process, because they share what they start.
PARALLEL := -n 3
WITH_BROKERS := --dist loadfile --no-loadscope-reorder
# Packages that have a native module and a twin; all others are the same in both builds.
TWINS := protocol record net producer consumer share
# It changes the source of the twins, and does the same in both builds: test-fast runs it.
SAME  := tests/unit/producer/test_forgotten_dispatch.py
# What test-real collects. Unit tests that need Java are marked in their files (tests/conftest.py).
JUDGED = tests/conformance tests/faults tests/foreign tests/oracle tests/real \
	$(shell grep -rlE 'pytest\.mark\.(java|real)\b' tests/unit --include='test_*.py')
# What test-fast collects: all but the folders whose every test is marked real or spark.
FAST  := $(filter-out tests/__pycache__/ tests/real/ tests/spark/,$(sort $(wildcard tests/*/)))
FAST_MARKS := -m "not real and not java and not brokers and not spark and not long" -q
# What depends on the interpreter: from Python 3.12 on, `await` takes other steps than in 3.11.
VERSIONED := tests/unit/record tests/unit/protocol tests/unit/share/handling tests/unit/share/records \
	$(wildcard tests/unit/producer/test_send*.py tests/unit/producer/batching tests/unit/consumer/buffering tests/unit/consumer/partitions)
# The tests of a part, or those whose ids are in the file TESTS.
TESTED = $(if $(TESTS),@$(TESTS),$(1))
# `make test` runs so many parts at a time, the longest first.
SLOTS := 2
# `make check` and `make test` run up to so many failed tests again, alone, and list those that pass
# then as flaky. AGAIN=0 tolerates none.
AGAIN := 5
PARTS := test-real test-spark test-fast test-pure
RELEASE := test-long test-brokers test-asan wheel-test oracle fuzz explore
GATES  = $(BIN)/python -m tools.gates --slots $(SLOTS) --again $(AGAIN) --logs $(DONE)/logs --made $(DONE)/spark --made $(DONE)/archive --made $(DONE)/docs

# pytest rewrites the assertions of 480 files: cache them, rather than repeat it in each process.
export PYTHONDONTWRITEBYTECODE :=

# Installing waits for the network, for one core, for a broker: three recipes at a time. A target that
# needs only one of them makes it alone, in order.
INSTALL = $(MAKE) -s --no-print-directory -j 3 $(DONE)/spark

NATIVE_SOURCES := $(shell find aiokafka_lite -name '*.pyx' -o -name '*.pxd' -o -name '*.h')
# The native modules are compiled once, in place: an editable installation would compile them again.
PIP   := AIOKAFKA_LITE_NO_NATIVE=1 $(BIN)/python -m pip -q --disable-pip-version-check
QUIET := > $(DONE)/install.log 2>&1 || { cat $(DONE)/install.log; exit 1; }

.PHONY: help venv ready demo pipeline check release-check test test-fast test-pure test-asan test-other-python wheel-test test-real test-spark test-long test-conformance test-brokers explore interop oracle fuzz fuzz-asan chaos chaos-producer chaos-consumer chaos-transactions chaos-share chaos-addresses chaos-tokens chaos-exactly-once endurance fault-bill scale spark-judge lint format bench bench-gate docs \
        kafka clean
.DEFAULT_GOAL := help

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

# -- the virtual environment; each layer has a stamp, so that a second run is fast

$(DONE)/made: tools/make_venv.sh
	@sh tools/make_venv.sh $(VENV)
	@mkdir -p $(DONE) && touch $@

$(DONE)/build-tools: $(DONE)/made pyproject.toml
	@echo "installing the build tools"
	@$(PIP) install 'setuptools>=77' 'Cython>=3.1,<4' && touch $@

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
	@$(PIP) install --no-build-isolation -e '.[cli]' $(QUIET)
	@touch $@

$(DONE)/dev: $(DONE)/native
	@echo "installing aiokafka_lite[dev]"
	@$(PIP) install --no-build-isolation -e '.[dev]' $(QUIET)
	@touch $@

# Other Kafka clients, for comparison: without them only the tests that use them are skipped.
$(DONE)/interop: $(DONE)/dev
	@echo "installing aiokafka_lite[interop]"
	@$(PIP) install --no-build-isolation -e '.[interop]' > $(DONE)/install.log 2>&1 \
		|| echo "NOT INSTALLED: tests against other clients will be skipped"
	@touch $@

# Spark (500 MB), in the release with whose own Kafka connector this one is compared. Without it the
# tests with Spark are skipped, with a reason. PyPI has its source only, and pip makes a wheel of it:
# to compress 430 MB of jars, and expand them at once, would take half of the time.
$(DONE)/pyspark: | $(DONE)/build-tools
	@echo "fetching pyspark $(PYSPARK) (large: up to a minute or two)"
	@printf '[bdist_wheel]\ncompression = stored\n' > $(DONE)/stored.cfg
	@$(BIN)/python -m pip show -q pyspark 2> /dev/null || DIST_EXTRA_CONFIG=$(abspath $(DONE)/stored.cfg) \
		$(PIP) wheel --no-build-isolation --no-deps --wheel-dir $(DONE)/wheels \
		'pyspark==$(PYSPARK)' > $(DONE)/pyspark.log 2>&1 && touch $@ || echo "NOT FETCHED (see $(DONE)/pyspark.log)"

$(DONE)/spark: $(DONE)/interop $(DONE)/pyspark
	@echo "installing aiokafka_lite[spark]"
	@test -e $(DONE)/pyspark && $(PIP) install --no-build-isolation --find-links $(DONE)/wheels \
		-e '.[spark]' 'pyspark[connect]==$(PYSPARK)' > $(DONE)/spark.log 2>&1 \
		&& touch $@ || echo "NOT INSTALLED (see $(DONE)/pyspark.log and spark.log): tests with Spark will be skipped"
	@rm -rf $(DONE)/wheels

# A class archive of a broker (CDS): each JVM of the tests starts in half the time.
$(DONE)/archive: $(DONE)/made
	@$(BIN)/python -m tools.kafka.archive && touch $@ || echo "NOT MADE: Kafka will start more slowly in each test"

$(DONE)/docs: $(DONE)/interop | $(AFTER)
	@echo "installing aiokafka_lite[docs]"
	@$(PIP) install --no-build-isolation -e '.[docs]' $(QUIET)
	@touch $@

# The same, without development tools.
$(DONE)/pipeline: $(DONE)/demo
	@$(BIN)/python -c "from aiokafka_lite.spark.pipeline.java import main; raise SystemExit(main())"
	@echo "installing aiokafka_lite[cli,spark] (pyspark is large: a minute or two)"
	@$(PIP) install --no-build-isolation -e '.[cli,spark]' 'pyspark==$(PYSPARK)' $(QUIET)
	@touch $@

venv: ## Create .venv with everything for development
	@$(INSTALL)

# Everything that `make check` needs. Two pips at a time could break the environment.
ready:
	@$(INSTALL) $(DONE)/archive $(DONE)/docs AFTER=$(DONE)/spark

# -- use

demo: $(DONE)/demo ## Send 200,000 records through a broker and check them; BOOTSTRAP=host:port for a real broker
	@$(BIN)/python -m aiokafka_lite demo $(if $(BOOTSTRAP),--bootstrap $(BOOTSTRAP)) $(FLAGS)

pipeline: $(DONE)/pipeline ## Count orders per minute, from Kafka through Spark and back, and check the sums; needs Java 17
	@$(BIN)/python -m aiokafka_lite pipeline demo $(FLAGS)

kafka: $(DONE)/dev ## Run a real Kafka in the foreground; FLAGS="--nodes 3 --version 3.9.2"
	@$(BIN)/python -m tools.kafka $(FLAGS)

# -- tests; FLAGS="-k name -x" is passed to pytest

test: ## Run all tests except long ones and those of old brokers, in both builds, with a real Kafka if available
	@$(INSTALL) $(DONE)/archive
	@$(GATES) $(PARTS)

check: ready ## Run make test, lint and docs with one summary, as CI does
	@$(GATES) $(PARTS) test-other-python lint docs bench-gate

release-check: ready ## Run what a release needs in addition to make check; takes hours
	@$(GATES) --slots 1 --limit 14400 $(RELEASE)

test-fast: $(DONE)/spark ## Run the tests that need neither Kafka nor Java
	@# In a new clone, one process rewrites and caches the assertions, instead of all four.
	@$(if $(FLAGS),,$(BIN)/pytest $(FAST) $(FAST_MARKS) --collect-only > /dev/null || true)
	$(BIN)/pytest $(call TESTED,$(FAST)) $(FAST_MARKS) $(PARALLEL) $(FLAGS)

test-pure: $(DONE)/spark ## Run the unit tests of packages with native modules on the pure-Python twins
	AIOKAFKA_LITE_PURE=1 $(BIN)/pytest $(call TESTED,$(TWINS:%=tests/unit/%) tests/unit/test_build.py \
		tests/unit/test_cancellation_at_every_pass.py --ignore=$(SAME)) \
		-m "not real and not java and not spark and not long" -q $(PARALLEL) $(FLAGS)

wheel-test: ## Build a wheel without git, install it into a bare venv, and run the unit tests with it; PYTHON=python3.13
	@sh tools/wheel_test.sh $(or $(PYTHON),python3) build/wheel-test -n 2 $(FLAGS)

test-other-python: $(DONE)/dev ## Run the tests of native awaitables and codecs with a wheel, on the newest other Python that is installed
	@python=$$(sh tools/other_python.sh $(BIN)/python); \
	if [ -z "$$python" ]; then echo "SKIPPED: no other Python from 3.12 on is installed"; else \
		OPTIONAL=1 TESTS="$(call TESTED,$(VERSIONED))" sh tools/wheel_test.sh "$$python" build/other-python -n 2 $(FLAGS); fi

test-asan: $(DONE)/dev ## Test the native modules under AddressSanitizer (gcc); PROGRAMS=20000 SUITES="tests/unit/record"
	SUITES="$(SUITES)" PROGRAMS=$(PROGRAMS) sh tools/test_asan.sh $(BIN)/python build/asan -n 2 $(FLAGS)

test-real: $(DONE)/spark $(DONE)/archive ## Run the tests that need a real Kafka or Java
	$(BIN)/pytest $(call TESTED,$(JUDGED)) -m "(real or java) and not brokers and not spark and not long" -n 3 $(WITH_BROKERS) $(FLAGS)

test-spark: $(DONE)/spark $(DONE)/archive ## Run the tests that need Spark (Java 17 or newer)
	$(BIN)/pytest $(call TESTED,tests/spark) -m "spark and not brokers and not long" -n 2 $(WITH_BROKERS) $(FLAGS)

test-long: $(DONE)/spark $(DONE)/archive ## Run the tests that make test leaves out because they take long
	$(BIN)/pytest -m "long and not brokers" -n 2 $(WITH_BROKERS) $(FLAGS)

explore: $(DONE)/interop ## Run the randomized tests with new seeds; MINUTES=5; SEED=7 repeats a round
	$(BIN)/python -m tests.explore --minutes $(or $(MINUTES),5) $(if $(SEED),--seed $(SEED)) -- $(FLAGS)

scale: $(DONE)/interop ## Measure clients of a simulated cluster of 1,000 brokers and 100,000 partitions; FLAGS="--brokers 100 --partitions 10000"
	$(BIN)/python -m benchmarks.scale $(FLAGS)

spark-judge: $(DONE)/spark ## Run the long Spark tests: 20 million records, killed drivers, more comparisons with Spark's connector
	$(BIN)/python -m tools.spark
	SPARK_JUDGE=1 $(BIN)/pytest tests/spark -s $(FLAGS)

test-conformance: $(DONE)/interop ## Send the same requests to the embedded broker and a real Kafka, and compare the responses
	$(BIN)/pytest tests/conformance $(FLAGS)

test-brokers: $(DONE)/interop ## Run the round trip on every old broker, from 0.8.2.2 to 3.9.2
	$(BIN)/pytest -m brokers $(FLAGS)

interop: $(DONE)/interop ## Exchange a million records per codec with Java and aiokafka, on one and on three brokers
	INTEROP_RECORDS=1000000 $(BIN)/pytest tests/real/test_interop.py -q $(FLAGS)
	INTEROP_RECORDS=1000000 INTEROP_NODES=3 $(BIN)/pytest tests/real/test_interop.py -q $(FLAGS)

oracle: $(DONE)/dev ## Compare every message and version, byte for byte, with the Java client
	$(BIN)/python -m tools.oracle --all $(FLAGS)

fuzz: $(DONE)/dev ## Fuzz the decoders, the clients and the native classes
	$(BIN)/python -m tests.fuzz.protocol $(FLAGS)
	$(BIN)/python -m tests.fuzz.records $(FLAGS)
	$(BIN)/python -m tests.fuzz.native $(FLAGS)
	$(BIN)/python -m tests.fuzz.broker $(FLAGS)
	$(BIN)/python -m tests.fuzz.extremes $(FLAGS)
	$(BIN)/python -m tests.fuzz.handshake $(FLAGS)

fuzz-asan: $(DONE)/dev ## Run all fuzzers with native modules under AddressSanitizer (gcc); FRAMES=1000000
	FRAMES=$(or $(FRAMES),1000000) sh tools/test_asan.sh $(BIN)/python build/asan

chaos: $(DONE)/interop ## Kill brokers for five minutes per test; no acknowledged record may be lost; MINUTES=5
	CHAOS_MINUTES=$(or $(MINUTES),5) $(BIN)/pytest tests/faults $(FLAGS)

chaos-producer: $(DONE)/interop ## Run the producer against three failing brokers; SEED=7 MINUTES=5 RATE=15000
	CHAOS_SEED=$(or $(SEED),1) CHAOS_MINUTES=$(or $(MINUTES),5) CHAOS_RATE=$(or $(RATE),15000) \
		CHAOS_SENDERS=$(or $(SENDERS),3000) $(BIN)/pytest tests/faults/test_chaos_producer.py -s $(FLAGS)

chaos-consumer: $(DONE)/interop ## Run a group of 8 consumers against three failing brokers; SEED=7 MINUTES=12 RECORDS=20000000
	CHAOS_SEED=$(or $(SEED),1) CHAOS_MINUTES=$(or $(MINUTES),12) CHAOS_RECORDS=$(or $(RECORDS),20000000) \
		$(BIN)/pytest tests/faults/test_chaos_consumer.py -s $(FLAGS)

chaos-transactions: $(DONE)/interop ## Read, process and write in transactions while brokers and workers are killed; SEED=7 MINUTES=5 RECORDS=5000000 VERSION=3.9.2 PROTOCOL=cooperative
	CHAOS_SEED=$(or $(SEED),1) CHAOS_MINUTES=$(or $(MINUTES),5) CHAOS_RECORDS=$(or $(RECORDS),5000000) \
		$(if $(VERSION),CHAOS_VERSION=$(VERSION)) $(if $(PROTOCOL),CHAOS_PROTOCOL=$(PROTOCOL)) \
		$(BIN)/pytest tests/faults/test_exactly_once_judged.py -s $(FLAGS)

chaos-share: $(DONE)/interop ## Run a share group of 8 members in 4 processes against three failing brokers; SEED=7 MINUTES=10 RECORDS=5000000 VERSION=4.3.1
	CHAOS_SEED=$(or $(SEED),1) CHAOS_MINUTES=$(or $(MINUTES),10) CHAOS_RECORDS=$(or $(RECORDS),1000000) \
		$(if $(VERSION),CHAOS_VERSION=$(VERSION)) $(BIN)/pytest tests/faults/test_chaos_share.py -s $(FLAGS)

chaos-addresses: $(DONE)/interop ## Change all addresses and certificates of three brokers under traffic; ROUNDS=20
	CHAOS_ROUNDS=$(or $(ROUNDS),20) $(BIN)/pytest tests/faults/test_chaos_addresses.py -s $(FLAGS)

chaos-tokens: $(DONE)/interop ## Stop the token server under traffic while tokens live 4 s; OUTAGE=60
	TOKEN_OUTAGE=$(or $(OUTAGE),60) $(BIN)/pytest tests/faults/test_token_outages.py -s $(FLAGS)

chaos-exactly-once: $(DONE)/interop ## Test exactly-once in many short runs with random outages, releases, protocols and APIs; RUNS=60 SEED=1 PARALLEL_RUNS=2
	$(BIN)/python -m tests.faults.exactly_once_runs --runs $(or $(RUNS),60) --seed $(or $(SEED),1) \
		--parallel $(or $(PARALLEL_RUNS),2) $(FLAGS)

endurance: $(DONE)/spark ## Run all workloads on one failing cluster for hours, in pieces; continues where it was stopped; HOURS=4 SEED=1 MINUTES=15 OUTPUT=build/endurance
	$(BIN)/python -m tests.faults.endurance --hours $(or $(HOURS),4) --minutes $(or $(MINUTES),15) \
		--seed $(or $(SEED),1) --output $(or $(OUTPUT),build/endurance) $(FLAGS)

fault-bill: $(DONE)/interop ## Measure how long records stop flowing after each fault, compared with aiokafka and confluent-kafka; REPEATS=5 SEED=1 OUTPUT=build/fault-bill
	$(BIN)/python -m tests.faults.fault_bill --repeats $(or $(REPEATS),5) --seed $(or $(SEED),1) \
		--output $(or $(OUTPUT),build/fault-bill) $(FLAGS)

bench: $(DONE)/interop ## Measure CPU and throughput, compared with aiokafka and confluent-kafka
	$(BIN)/python -m benchmarks $(FLAGS)

bench-gate: $(DONE)/spark ## Fail if a record costs more instructions, requests or objects than it may (valgrind)
	$(BIN)/python -m benchmarks.gate $(FLAGS)

# -- static checks

lint: $(DONE)/spark ## Run ruff, mypy --strict, import-linter, and check that generated code and docs are current
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.protocol_gen --check --if-available
	$(BIN)/python -m tools.broker_docs --check
	$(BIN)/python -m tools.spark_docs --check
	$(BIN)/python -m tools.reference_docs --check
	$(BIN)/python -m tools.pictures --check

docs: $(DONE)/docs ## Build the documentation site into build/site; a broken link or docstring is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict  # with --quiet it would count no warnings
	@echo "build/site/index.html"

format: $(DONE)/dev ## Format the code with ruff
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean: ## Remove everything that make created
	rm -rf $(VENV) build dist *.egg-info .hypothesis .explore .pytest_cache .mypy_cache .ruff_cache \
		.import_linter_cache .grimp_cache
	find aiokafka_lite \( -name '*.so' -o -name __pycache__ \) -prune -exec rm -rf {} +
