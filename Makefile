# Headworks: `make up` runs it, `make test` checks it. `make help` lists the verbs.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
RUN := HEADWORKS_DEBUG=1 $(VENV)/bin/python

.PHONY: help up down demo doctor test check bench lint dev-env

help:  ## list the verbs
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/.dev: requirements/control.txt requirements/dev.txt
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/dev.txt
	@touch $@

dev-env: $(VENV)/.dev  ## install what checks and tests need

lint: dev-env
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy .
	$(VENV)/bin/lint-imports --no-logo

check: lint  ## lint, types, import contracts, domain and unit tests
	$(RUN) -m pytest -q -m "not services and not engine and not browser and not stack"

test: lint  ## everything, on real services, a real engine and a real browser
	$(RUN) -m pytest
