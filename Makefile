# Two commands on a fresh clone: `make run` and `make test`; both make their own .venv first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup run docs records test test-all test-shuffled test-lowest check mutate clean

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

run: setup  ## the main job on a bundled photo: what it made and where stands at the end
	$(BIN)/python examples/first_steps.py

docs: setup  ## the site of the documentation, in out/site
	$(BIN)/python -m sphinx -W --keep-going -q -d out/doctrees docs out/site
	@echo out/site/index.html

check: setup  ## style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check  ## everything that must hold, in minutes
	$(BIN)/python -m pytest

test-all: check  ## and what takes longer
	$(BIN)/python -m pytest -m ''

test-shuffled: setup  ## ten runs of the tests in random orders, about an hour; the same command continues an interrupted run
	$(BIN)/python benchmarks/random_order.py -o benchmarks/results/random_order.json

LOWEST := .venv-lowest/bin
# What depends on the versions of other packages; style, types and the oracles of the tests do not.
LOWEST_TESTS := tests/images tests/kernels tests/trees tests/tokenizer tests/models tests/tasks tests/runtime tests/exports tests/cli tests/evaluation

.venv-lowest/ready: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv .venv-lowest
	$(LOWEST)/python -m pip install --quiet --disable-pip-version-check -c constraints-lowest.txt torch
	$(LOWEST)/python -m pip install --quiet --disable-pip-version-check -c constraints-lowest.txt -e '.[models,evaluate,tiff,geo]' pytest hypothesis higra pycocotools
	@touch $@

test-lowest: .venv-lowest/ready  ## the lowest versions that pyproject.toml allows (torch but for one: see there)
	$(LOWEST)/python -m pytest $(LOWEST_TESTS)

mutate: setup  ## 300 seeded mutants against the tests that cover them, about an hour; the same command continues an interrupted run
	$(BIN)/python benchmarks/mutation --count 300 --seed 0 --workers 2 --again -o benchmarks/results/mutation.json

records: setup  ## which records of benchmarks/results still hold; measures the quick ones again that do not
	$(BIN)/python benchmarks/records.py

clean:
	rm -rf .venv .venv-lowest out
