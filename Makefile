# Every target sets up .venv by itself and re-uses it; another Python: make PYTHON=python3.13 test
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_QUIETLY := python -m pip -qq --disable-pip-version-check
PIP := $(BIN)/$(PIP_QUIETLY)
OLDEST := .venv-oldest
SOURCES := $(shell find src -type f -not -name '*.pyc')
# make test COVERAGE=90 measures coverage too, and fails below 90%; it takes half as long again.
MEASURED := $(if $(COVERAGE),--cov=fedica --cov-report=term --cov-fail-under=$(COVERAGE))

.PHONY: help demo test lint unit faults oldest data docs screenshot robustness people group second bench peers clean
.DELETE_ON_ERROR:

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:.*##/:/'

demo: $(VENV)/.demo  ## recover six mixed photographs; tables on the screen, the picture in out/demo
	@$(BIN)/fedica demo -o out/demo

test: lint unit  ## style, types, import arrows, then every test on the built wheel

lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pylint --disable=all --enable=duplicate-code --score=n src/fedica

# The package is imported from site-packages, never from src; doctests of the installed modules and of all pages run too.
# One thread per process: threads of BLAS that wait for one another took nearly half of the time.
# The processes of Flower that fail for minutes have a target of their own.
unit: export OMP_NUM_THREADS = 1
unit: $(VENV)/.dev
	$(BIN)/pytest tests $(addprefix --ignore=,$(FAULTS)) \
		--pyargs fedica README.md docs/*.md --doctest-modules --doctest-glob='*.md' \
		--numprocesses=auto --maxprocesses=8 --dist=loadfile \
		--durations=20 --durations-min=5 $(MEASURED)

# A federation per file, side by side, the longest first: they mostly wait, for deadlines and for what Flower takes a minute to notice.
FAULTS := $(addprefix tests/flower/test_,kills.py late_kills.py more_kills.py attacks.py runbook.py processes.py container.py users.py simulation.py)
faults: export OMP_NUM_THREADS = 1
faults: export FEDICA_SLOW = 1
faults: $(VENV)/.dev $(VENV)/.simulation  ## processes of a Flower federation that raise, hang, are killed, come late and come back; attacks; the runbook (twelve minutes)
	$(BIN)/pytest $(FAULTS) --numprocesses=5 --dist=loadfile --durations=5

# Left out: tests of kills, of floods of broken files and of bounds on memory, which no version of a library decides.
oldest: export OMP_NUM_THREADS = 1
oldest: $(OLDEST)/.test  ## the estimators' contract and the core's tests with the oldest versions that are allowed
	$(OLDEST)/bin/pytest tests/test_*.py tests/blocks tests/ica tests/local tests/server tests/exchange tests/cli/test_main.py tests/report/test_page.py \
		--ignore=tests/exchange/test_faults.py --deselect=tests/server/test_scale.py::test_memory_is_bounded_by_blocks \
		--numprocesses=auto --maxprocesses=8 --dist=loadfile

data: $(VENV)/.dev  ## fetch the real data sets into the user's cache, once, and check them
	$(BIN)/python -m fedica.datasets

# The data of the gallery is fetched first, into the user's cache; the build itself needs no network, nor do its readers.
docs: export OMP_NUM_THREADS = 1
docs: export OPENBLAS_NUM_THREADS = 1
docs: $(VENV)/.docs  ## build this project's site into out/docs: pages, tutorials, gallery, API; every warning is an error
	$(BIN)/python -m fedica.datasets
	$(BIN)/python docs/run_pages.py docs/tutorials/*.md
	@rm -rf out/docs
	$(BIN)/sphinx-build --fail-on-warning --keep-going --nitpicky --jobs=auto --quiet docs out/docs
	$(BIN)/python docs/check_site.py out/docs

screenshot: $(VENV)/.dev  ## take the README's picture of the report, docs/images/report.png; needs Chromium
	$(BIN)/python tests/report/screenshot.py docs/images/report.png

robustness: $(VENV)/.demo  ## measure every attack; writes docs/robustness.md (hours; a look: ROBUSTNESS=--quick, a part: ROBUSTNESS='--section leans')
	$(BIN)/python benchmarks/robustness.py $(ROBUSTNESS)

people: $(VENV)/.docs  ## measure people and real recordings; writes docs/people.md (two hours; a look: PEOPLE=--quick, a part: PEOPLE='--section halves')
	$(BIN)/python benchmarks/people.py $(PEOPLE)

group: $(VENV)/.docs  ## measure group ICA beside pooling and hostile clients; writes docs/group.md (a look: GROUP=--quick)
	$(BIN)/python benchmarks/group.py $(GROUP)

second: $(VENV)/.docs  ## measure what a second message brings, also under attack; writes docs/second.md and a summary in docs/choosing.md (hours; a look: SECOND=--quick)
	$(BIN)/python benchmarks/second_message.py $(SECOND)

bench: $(VENV)/.bench  ## measure speed, memory and growth beside others; writes docs/performance.md (two hours; a look: BENCH=--quick)
	$(BIN)/python benchmarks/run.py $(BENCH)

peers: export OMP_NUM_THREADS = 1
peers: export OPENBLAS_NUM_THREADS = 1
peers: $(VENV)/.docs  ## do the same task in other tools; writes docs/peers.md (three minutes)
	$(BIN)/python benchmarks/peers.py

clean:  ## remove everything that the targets made
	rm -rf $(VENV) $(OLDEST) dist out docs/api docs/gallery .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit("fedica needs Python 3.11 or newer: make PYTHON=python3.12 ...") if sys.version_info < (3, 11) else None'
	@echo "Setting up $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install 'hatchling>=1.26'
	@touch $@

dist/.wheel: pyproject.toml README.md LICENSE $(SOURCES) | $(VENV)/.python
	@echo "Building the wheel"
	@rm -rf dist
	@$(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .
	@touch $@

# Several environments in one: the demo needs least. The second pip replaces a wheel of the same version.
$(VENV)/.demo $(VENV)/.dev $(VENV)/.bench $(VENV)/.docs $(VENV)/.simulation: $(VENV)/.%: dist/.wheel
	@echo "Installing fedica[$*]"
	@$(PIP) install "$$(ls dist/*.whl)[$*]"
	@$(PIP) install --no-deps --force-reinstall dist/*.whl
	@touch $@

# The first Python that has wheels of versions so old.
$(OLDEST)/.python: requirements/oldest.txt
	@for python in $(PYTHON) python3.11 python3.12; do \
		$$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' 2> /dev/null || continue; \
		echo "Setting up $(OLDEST) with $$($$python --version)"; \
		$$python -m venv --clear $(OLDEST) && touch $@; exit; \
	done; echo "make oldest needs Python 3.11 or 3.12" >&2; exit 1

$(OLDEST)/.test: dist/.wheel $(OLDEST)/.python
	@$(OLDEST)/bin/$(PIP_QUIETLY) install -c requirements/oldest.txt "$$(ls dist/*.whl)[test]"
	@$(OLDEST)/bin/$(PIP_QUIETLY) install --no-deps --force-reinstall dist/*.whl
	@touch $@
