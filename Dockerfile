# Pinned to a release of Python; for what you run, pass it with its digest: --build-arg BASE=python:…@sha256:…
ARG BASE=python:3.13.14-slim

FROM ${BASE} AS build
WORKDIR /src
RUN python -m pip install --quiet --no-cache-dir --root-user-action ignore uv==0.13.8
COPY pyproject.toml uv.lock README.md LICENSE ./
COPY reconciler ./reconciler
RUN UV_PROJECT_ENVIRONMENT=/opt/reconcile python -m uv sync --quiet --locked --no-default-groups --no-editable --compile-bytecode --no-cache --python-preference only-system --extra controller --extra encryption --extra objects --extra policy --extra postgres

FROM ${BASE}
# curl keeps plans in a package registry. git refuses a folder of another user: /work is the one to mount.
# hadolint ignore=DL3008 # Debian drops a package's version as soon as there is a newer one
RUN apt-get update && apt-get install -y --no-install-recommends curl git openssh-client && rm -rf /var/lib/apt/lists/* && git config --system --add safe.directory /work && useradd --uid 10001 --create-home reconcile
COPY --from=build /opt/reconcile /opt/reconcile
ENV PATH=/opt/reconcile/bin:$PATH PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /work
ENTRYPOINT ["reconcile"]
CMD ["--help"]
