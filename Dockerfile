# Two stages: the first installs what the lock files list, by hash, into one folder; the second is a plain
# Python with that folder and nothing else. The image needs no compiler, no pip and no shell script.
# The image's lock file leaves out what litestar uses only to generate examples for OpenAPI pages (25 MB).
FROM python:3.13-slim AS build
WORKDIR /build
COPY requirements-image.lock requirements-build.lock ./
RUN python3 -m venv tools \
    && tools/bin/pip install --no-cache-dir --require-hashes --requirement requirements-build.lock \
    && python3 -m venv --without-pip /opt/trimtab \
    && tools/bin/pip --python /opt/trimtab/bin/python install --no-cache-dir --no-deps --require-hashes \
       --requirement requirements-image.lock
COPY pyproject.toml README.md LICENSE ./
COPY config config
COPY proxy proxy
RUN tools/bin/pip wheel --no-deps --no-index --no-build-isolation --wheel-dir wheels . \
    && tools/bin/pip --python /opt/trimtab/bin/python install --no-cache-dir --no-deps --no-index \
       --find-links wheels trimtab

FROM python:3.13-slim
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="trimtab" \
      org.opencontainers.image.description="An OpenAI-compatible reverse proxy that keeps long conversations inside the model's context window." \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="MIT"
COPY --from=build /opt/trimtab /opt/trimtab
COPY config/trimtab.toml /etc/trimtab/trimtab.toml
ENV PATH="/opt/trimtab/bin:${PATH}" \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
# A number, so that Kubernetes can see that it is not root; it needs no entry in /etc/passwd and no home directory.
USER 10001:10001
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
    CMD ["/opt/trimtab/bin/python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/healthz/live', timeout=2)"]
ENTRYPOINT ["trimtab"]
CMD ["serve", "--host", "0.0.0.0", "--config", "/etc/trimtab/trimtab.toml"]
