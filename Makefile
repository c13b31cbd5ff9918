# Two commands on a fresh clone: `make run` and `make test`; both make their own .venv first.
PYTHON ?= python3
BIN := .venv/bin

PIP := -m pip --quiet --disable-pip-version-check

# Machine code of the kernels, shared by all clones with the same sources; the tests have the same folder.
export NUMBA_CACHE_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/pixtree/tests

.PHONY: setup lock run docs report records test test-all test-time test-shuffled test-lowest check mutate soak wheel release clean

setup: .venv/warm

.venv/warm: .venv/ready
	$(BIN)/python -m pixtree warmup
	@touch $@

# Files whose hashes are known, and nothing else, on the platform of CI; torch and torchvision are the builds of the machine, so they
# have none, and bring what only they need. Other platforms get the versions of constraints.txt.
ifeq ($(shell uname -sm),Linux x86_64)
.venv/ready: pyproject.toml constraints.txt requirements-locked.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python $(PIP) install --require-hashes --no-deps -r requirements-locked.txt
	$(BIN)/python $(PIP) install -c constraints.txt torch torchvision
	$(BIN)/python $(PIP) install --no-build-isolation --no-deps -e .
	$(BIN)/python $(PIP) check
	@touch $@
else
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python $(PIP) install -c constraints.txt torch
	$(BIN)/python $(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@
endif

# What comes with torch for the graphics cards of one maker, and torch itself.
UNLOCKED := torch torchvision cuda-bindings cuda-pathfinder cuda-toolkit nvidia-cublas nvidia-cuda-cupti nvidia-cuda-nvrtc \
	nvidia-cuda-runtime nvidia-cudnn-cu13 nvidia-cufft nvidia-cufile nvidia-curand nvidia-cusolver nvidia-cusparse nvidia-cusparselt-cu13 \
	nvidia-nccl-cu13 nvidia-nvjitlink nvidia-nvshmem-cu13 nvidia-nvtx

lock:  ## requirements-locked.txt from pyproject.toml and constraints.txt, for Python from 3.11.5 on; needs uv
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11.5 -c constraints.txt --generate-hashes --quiet \
		--no-header --no-annotate --no-emit-index-url --no-emit-find-links $(UNLOCKED:%=--no-emit-package %) -o requirements-locked.txt

run: setup  ## the main job on a bundled photo: what it made and where stands at the end
	$(BIN)/python examples/first_steps.py

docs: .venv/ready  ## the site of the documentation, in out/site
	$(BIN)/python -m sphinx -W --keep-going -q -d out/doctrees docs out/site
	@echo out/site/index.html

check: .venv/ready  ## style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Two processes, which take tests from each other when one runs out; the first run on a machine compiles the kernels before they start.
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

test: check  ## everything that must hold, in minutes
	$(PYTEST)

test-all: check  ## and what takes longer
	$(PYTEST) -m '' -o faulthandler_timeout=3600

test-time: setup  ## how long the tests take in a fresh clone without machine code; needs a quiet machine
	$(BIN)/python benchmarks/test_time.py -o benchmarks/results/test_time.json

test-shuffled: setup  ## ten runs of the tests in random orders, about an hour; the same command continues an interrupted run
	$(BIN)/python benchmarks/random_order.py -o benchmarks/results/random_order.json

LOWEST := .venv-lowest/bin
# What depends on the versions of other packages; style, types and the oracles of the tests do not.
LOWEST_TESTS := tests/images tests/kernels tests/trees tests/tokenizer tests/models tests/tasks tests/runtime tests/exports tests/cli tests/evaluation tests/benchmarks \
	tests/training tests/batch tests/napari_plugin tests/app/test_server.py tests/app/test_hostile_requests.py
LOWEST_EXTRAS := models,transformers,onnx,train,datasets,evaluate,tiff,geo,napari,batch,ray,app

.venv-lowest/ready: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv .venv-lowest
	$(LOWEST)/python $(PIP) install -c constraints-lowest.txt torch
	$(LOWEST)/python $(PIP) install -c constraints-lowest.txt -e '.[$(LOWEST_EXTRAS)]' pytest hypothesis higra pycocotools
	@touch $@

test-lowest: .venv-lowest/ready  ## the lowest versions that pyproject.toml allows (torch but for one: see there)
	$(LOWEST)/python -m pytest $(LOWEST_TESTS)

soak: setup  ## an hour of mixed work, with memory, files and threads watched
	$(BIN)/python benchmarks/soak.py --minutes 60 -o benchmarks/results/soak.json --plot docs/pictures/soak.png

wheel: .venv/ready  ## dist: the sdist, a wheel for all platforms, and one for this Python and platform with machine code
	rm -rf out/shipped_code
	$(BIN)/python -m pixtree warmup --ship out/shipped_code
	$(BIN)/python -m hatchling build -d dist
	PIXTREE_MACHINE_CODE=out/shipped_code $(BIN)/python -m hatchling build -t wheel -d dist

release: setup  ## wheels and sdist in empty environments, without extras and with all; installs from the package index
	$(BIN)/python benchmarks/release.py -o benchmarks/results/release.json

mutate: setup  ## 300 seeded mutants against the tests that cover them, about an hour; the same command continues an interrupted run
	$(BIN)/python benchmarks/mutation --count 300 --seed 0 --workers 2 --again -o benchmarks/results/mutation.json

report: .venv/ready  ## docs/results.md and docs/results_long.md from the records of benchmarks/results
	$(BIN)/python benchmarks/evidence

records: setup  ## which records of benchmarks/results still hold; measures the quick ones again that do not
	$(BIN)/python benchmarks/records.py

clean:
	rm -rf .venv .venv-lowest out
