# Headworks: `make up` runs it, `make test` checks it. `make help` lists the verbs.
SHELL := /bin/bash
# A distribution's interpreter is built with profile-guided optimisation, those of version managers mostly are not: with
# it the gateway needs a sixth less CPU.
PYTHON ?= $(or $(shell /usr/bin/python3 -c 'import sys, ensurepip, venv; print(sys.executable * (sys.version_info >= (3, 11)))' 2>/dev/null),python3)
VENV := .venv
RUN := HEADWORKS_DEBUG=1 $(VENV)/bin/python
CACHE := $(or $(HEADWORKS_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/headworks)
ENGINE := HEADWORKS_ENGINE_PYTHON="$(CURDIR)/.venv-engine/bin/python" \
  HEADWORKS_MODEL_PATH="$(CACHE)/models/smollm2-135m-instruct"
LAUNCH := PYTHON="$(PYTHON)" sh controlplane/embedded/launch.sh
# what opens sockets and starts processes is no unit test
LEFT_TO_TEST := $(addprefix --ignore=tests/,gateway embedded api test_manage.py test_env.py test_serve.py engine_adapters/simulated)
# what tests the modules of controlplane/compiled.py
COMPILED_TOO := tests/gateway tests/lib tests/domain/admission tests/domain/quotas

.PHONY: help up down demo doctor prepare test check bench lint dev-env chromium

help:  ## list the verbs
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

up:  ## install what is missing, start everything, stay in the foreground (DETACH=1: return when ready)
	@$(LAUNCH) up $(if $(filter-out 0,$(DETACH)),--detach)

down:  ## drain the engines and end everything
	@$(LAUNCH) down

demo:  ## make up with a simulated cluster under load beside the real engine (DETACH=1: return when ready)
	@$(LAUNCH) up --demo $(if $(filter-out 0,$(DETACH)),--detach)

doctor:  ## write a support bundle without secrets and say what looks wrong
	@$(LAUNCH) doctor

prepare:  ## only install and convert what `make up` needs
	@$(LAUNCH) prepare

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
	$(RUN) -m pytest -q -n 2 -m "not services and not engine and not browser and not stack" $(LEFT_TO_TEST)

chromium:
	@command -v chromium >/dev/null || if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Installing Chromium for the tests of the pages"; \
	  { apt-get install -y -qq chromium || { apt-get update -qq && apt-get install -y -qq chromium; }; } >/dev/null 2>&1 \
	    || echo "Chromium could not be installed; tests in a browser will be skipped"; \
	else echo "Chromium is missing and this is not root: tests in a browser will be skipped"; fi

test: prepare lint chromium  ## everything, on real services, a real engine and a real browser
	$(ENGINE) $(RUN) -m pytest -n 2 --dist loadgroup --no-loadscope-reorder
	@if $(RUN) -c 'from controlplane import compiled; raise SystemExit(not compiled.use())'; then \
	  echo "Once more what is compiled, in its compiled form"; \
	  $(RUN) -m pytest -q -n 2 --dist loadgroup -p tests.compiled_modules $(COMPILED_TOO); \
	else echo "Nothing is compiled here (see above): its tests have run on the plain modules only"; fi

bench: dev-env prepare  ## measure the gateway beside its peers, the collector, the controller and what is predicted
	$(RUN) -m benchmarks.run
