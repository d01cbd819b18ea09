# Every target sets itself up: the environment is made anew when what it needs has changed.

VENV := .venv
PY := $(VENV)/bin/python
# Apart, as it brings many packages and a pytest plugin.
SCHEMA := .venv-schema
TIERS := unit integration replay acceptance chaos e2e
# The first Python of 3.11 or later that can make an environment.
PYTHON ?= $(shell for each in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	if $$each -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	then echo $$each; break; fi; done)
MODULE ?= examples/quickstart.py

.PHONY: help demo chat dev test $(TIERS) check format bench clean

help:
	@echo "make demo    a background agent at work; its worker is killed, nothing is lost"
	@echo "make chat    an agent that talks, remembers and summarizes; killed in the middle of a turn"
	@echo "make dev     Temporal and a worker for MODULE=$(MODULE)"
	@echo "make test    all tests; make unit (or another folder of tests/) those of one tier"
	@echo "make check   format, lint and types"
	@echo "make format  let the formatter rewrite the code"
	@echo "make bench   measurements, each beside its peer or floor"
	@echo "make clean   remove the environment and caches"

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later with venv is needed; on Debian: apt-get install python3-venv" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade 'pip>=25.1'

$(VENV)/.runtime: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PY) -m pip install -qq --constraint constraints.txt --editable '.[local,gateway]'
	@touch $@

$(VENV)/.development: $(VENV)/.runtime
	$(PY) -m pip install -qq --constraint constraints.txt --group dev --editable '.[local,gateway]'
	@touch $@

$(SCHEMA)/.ready: pyproject.toml | $(VENV)/bin/python
	$(PYTHON) -m venv $(SCHEMA)
	$(SCHEMA)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(SCHEMA)/bin/python -m pip install --quiet --group schema
	@touch $@

demo: $(VENV)/.runtime
	$(PY) examples/background_agent/demo.py

chat: $(VENV)/.runtime
	$(PY) examples/chat_agent/demo.py

dev: $(VENV)/.runtime
	$(VENV)/bin/agent-runtime dev $(MODULE)

# One after the other, the fast ones first, whatever --jobs says.
test: $(VENV)/.development $(SCHEMA)/.ready
	@$(MAKE) --no-print-directory --jobs=1 $(TIERS)

$(TIERS): $(VENV)/.development
	@echo "== $@"
	@$(PY) -m pytest -q tests/$@

acceptance: $(SCHEMA)/.ready

check: $(VENV)/.development
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	cd examples/background_agent && MYPYPATH=../.. ../../$(PY) -m mypy --strict agents.py workflows.py demo.py ../quickstart.py
	cd examples/chat_agent && MYPYPATH=../.. ../../$(PY) -m mypy --strict agents.py offline_model.py demo.py

format: $(VENV)/.development
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

bench: $(VENV)/.development
	$(PY) -m bench

clean:
	rm -rf $(VENV) $(SCHEMA) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
