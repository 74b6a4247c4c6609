# Everything a person does with this project; `make help` lists it.
PYTHON ?= python3
CORES ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)
CONFIG ?= config.yaml
# Without CONFIG=…, ui and prune take the experiment that ran last.
CHOSEN := $(if $(filter file,$(origin CONFIG)),,$(CONFIG))
PORT ?= 5000
MACHINE ?= $(CORES) cores
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export PATH := $(CURDIR)/$(BIN):$(PATH)
export MLFLOW_DISABLE_TELEMETRY := true
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup lock run demo comparison ui predict prune publish report docs lint test test-real test-slow test-slurm fuzz trials bench clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(READY) ## create .venv and install the locked dependencies and flrml itself

# uv installs several times faster; where it cannot reach the package index that pip is set up for, pip does it.
$(READY): requirements.lock envs/setup.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "flrml needs Python 3.11 or newer; name one with: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@echo "Setting up $(VENV) (about a minute) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r envs/setup.lock
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip install --quiet --compile-bytecode --require-hashes -r requirements.lock \
	  || $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

lock: $(READY) ## renew requirements.lock from pyproject.toml
	uv pip compile --quiet --universal --python-version 3.11 --extra all --extra docs --extra dev \
	  --no-emit-index-url --no-header --generate-hashes --upgrade pyproject.toml -o requirements.lock
	printf 'uv\nsetuptools>=77\n' | uv pip compile --quiet --universal --python-version 3.11 \
	  --no-emit-index-url --no-header --no-annotate --generate-hashes --upgrade - -o envs/setup.lock
	$(BIN)/python envs/pin.py

run: $(READY) ## run the bundled default experiment: figures, tables and MLflow runs (CONFIG=… for another)
	snakemake --cores $(CORES) --configfile $(CONFIG)

demo: $(READY) ## everything end to end on tiny data, offline, in about a minute
	@$(MAKE) --no-print-directory run CONFIG=workflow/configs/tiny.yaml

comparison: $(READY) ## run all methods on the bundled data sets (40 minutes)
	@$(MAKE) --no-print-directory run CONFIG=workflow/configs/comparison.yaml

ui: $(READY) ## browse the last experiment in MLflow's UI on 127.0.0.1:5000 (CONFIG=… for another, PORT=…)
	@$(BIN)/python -m flrml.pipeline ui $(PORT) $(CHOSEN)

predict: $(READY) ## write classes and neighbours of new files to a CSV: MODEL=results/runs/… INPUT=… OUTPUT=classes.csv
	@$(BIN)/python -m flrml.pipeline predict "$(MODEL)" "$(INPUT)" "$(OUTPUT)"

prune: $(READY) ## list the runs of earlier results in MLflow, ask, and delete them with their models (YES=1 does not ask)
	@$(BIN)/python -m flrml.pipeline prune "$(YES)" $(CHOSEN)

publish: ## copy tables and figures of a finished run to docs/results (CONFIG as for run, MACHINE says where it ran)
	$(BIN)/python docs/publish.py $(CONFIG) "$(MACHINE)"

report: $(READY) ## write report.html, every figure and table in one file, and add it to MLflow's run
	snakemake --cores 1 --configfile $(CONFIG) --report report.html
	@$(BIN)/python -m flrml.pipeline report report.html $(CONFIG)

docs: $(READY) ## build the documentation with its gallery into docs/_build/html, strictly
	sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

lint: $(READY) ## ruff (lint and format), snakefmt, snakemake --lint and mypy
	ruff check .
	ruff format --check .
	snakefmt --check Snakefile workflow
	snakemake --lint
	mypy

test: lint ## lint, then the quick tests and the examples in docstrings
	OMP_NUM_THREADS=1 pytest -n $(CORES) --dist worksteal -m "not slow" --doctest-modules --ignore=flrml/pipeline tests flrml

test-real: $(READY) ## accuracies on the real data sets in FLRML_RAW_DIR (17 minutes of processor time)
	pytest -m "real_data" -s tests

test-slow: $(READY) ## kill tests, the browser test and other slow proofs
	OMP_NUM_THREADS=1 pytest -m "slow and not real_data and not slurm" tests

test-slurm: $(READY) ## the pipeline on a SLURM of one node (Debian: apt-get install slurm-wlm munge)
	OMP_NUM_THREADS=1 pytest -m "slurm" tests

fuzz: $(READY) ## feed odd files to the readers of data sets, and 24,000 odd inputs to all estimators (20 minutes of processor time)
	FLRML_FUZZ=600 FLRML_FUZZ_CASES=24000 FLRML_INVARIANCE_CASES=10000 OMP_NUM_THREADS=1 pytest -n $(CORES) \
	  tests/datasets/test_fuzz.py tests/test_fuzz.py tests/test_invariances.py

trials: fuzz ## all of fuzz, 60 interrupted runs, and ten fits with each loss of Dask workers (an hour and a half)
	FLRML_TRIALS=10 OMP_NUM_THREADS=1 pytest -s -m slow -k random_moments tests/workflow/test_interruption.py tests/distributed

bench: $(READY) ## speed and memory, each row two things measured side by side; written to docs/benchmarks.md
	$(BIN)/python -m benchmarks --page docs/benchmarks.md --machine "$(MACHINE)"

clean: ## remove the environment and everything that a run or a test wrote
	rm -rf $(VENV) build docs/_build docs/_generated docs/gallery *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis .snakemake results report.html \
	  mlflow.db mlflow.db.lock mlartifacts
