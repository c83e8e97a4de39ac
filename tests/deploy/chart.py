"""Checks of the chart: by Helm, by the schemas of Kubernetes and of operators, and for what an operator needs."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.matrix import (
    KUBERNETES,
    REFUSED,
    VALUES,
    every_manifest,
    manifests,
    pods,
    proxy_container,
    proxy_pod,
    rendered,
    with_image,
)
from tests.deploy.tools import ROOT, Wrong, python, run
from trimtab.settings import parse

# Kinds that come with an operator or a gateway: Kubernetes itself has no schema for them.
_CUSTOM = ("ServiceMonitor", "PodMonitor", "PrometheusRule", "HTTPRoute", "ScaledObject")

# Reads each manifest with the operators' own models. A key that is lost on the way is unknown to them.
_OPERATOR_MODELS = """
import json, sys
import cloudcoil.models.keda.v1alpha1 as keda
import cloudcoil.models.prometheus_operator.v1 as prometheus
def lost(given, kept, place):
    if isinstance(given, dict):
        gone = [place + "." + key for key in given if key not in kept]
        return gone + [p for k, v in given.items() if k in kept for p in lost(v, kept[k], place + "." + k)]
    if isinstance(given, list):
        return [p for i, v in enumerate(given) for p in lost(v, kept[i], f"{place}[{i}]")]
    return []
for document in json.load(sys.stdin):
    models = keda if document["apiVersion"].startswith("keda.sh") else prometheus
    model = getattr(models, document["kind"]).model_validate(document)
    kept = model.model_dump(by_alias=True, exclude_unset=True, mode="json")
    if places := lost(document["spec"], kept["spec"], document["kind"]):
        sys.exit("unknown to the operator: " + ", ".join(places))
"""


def lint() -> str:
    """`helm lint --strict`, with nothing set and with everything on."""
    for values in VALUES.values():
        run("helm", "lint", "--strict", "helm", "--values", "-", stdin=with_image(values))
    return f"helm lint --strict, {len(VALUES)} sets of values"


def renders() -> str:
    count = sum(len(documents) for documents in rendered().values())
    return f"{count} manifests from {len(VALUES)} sets of values for Kubernetes {' and '.join(KUBERNETES)}"


def refuses() -> str:
    """Values that cannot work, or would leak a key, are refused with the reason."""
    for name, (values, reason) in REFUSED.items():
        try:
            manifests(values)
        except Wrong as refusal:
            if reason not in str(refusal):
                raise Wrong(f"{name}: refused for another reason: {refusal}") from refusal
        else:
            raise Wrong(f"{name} was not refused")
    return f"{len(REFUSED)} wrong sets of values refused, each with its reason"


def kubernetes_accepts() -> str:
    """Every manifest against the strict schemas of the oldest and the newest version."""
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for version in KUBERNETES:
            files = []
            for (_, of), documents in rendered().items():
                for document in documents:
                    if of == version and document["kind"] not in _CUSTOM:
                        file = Path(folder) / f"{version}-{len(files)}-{document['kind']}.yaml"
                        file.write_text(yaml.safe_dump(document))
                        files.append(file)
            run("kubernetes-validate", "--strict", "--quiet", "-k", f"{version}.0", *files)
            count += len(files)
    return f"{count} manifests valid strictly, Kubernetes {' and '.join(KUBERNETES)}"


def operators_accept() -> str:
    """Monitors and rules by the Prometheus operator's own models, autoscalers by KEDA's."""
    groups = ("monitoring.coreos.com/v1", "keda.sh/v1alpha1")
    documents = [d for _, d in every_manifest() if d["apiVersion"] in groups]
    python(_OPERATOR_MODELS, json.dumps(documents))
    return f"{len(documents)} monitors, rules and autoscalers read by their operators' models, no key unknown"


# Variables of the examples that have to look like what they are.
_VARIABLES = {name: "5" * 64 for name in ("KEY_SHA256", "CLIENT_KEY_SHA256")}


def alerts_are_this_releases() -> str:
    """Each alert looks at the series that the monitors of the same release make, and links to its section."""
    count = 0
    for where, document in every_manifest():
        if document["kind"] != "PrometheusRule":
            continue
        job = "llm" if where.startswith("another name") else "trimtab"
        for rule in (rule for group in document["spec"]["groups"] for rule in group["rules"]):
            selectors = re.findall(r"(?:trimtab_\w+|up){([^}]*)}", rule["expr"])
            if any(f'job="{job}", namespace="n"' not in selector for selector in selectors) or not selectors:
                raise Wrong(f"{where}: {rule['alert']} looks at series of others: {rule['expr']}")
            if not rule["annotations"]["runbook_url"].endswith(f"#{rule['alert'].lower()}"):
                raise Wrong(f"{where}: {rule['alert']} links to another section")
            count += 1
    return f"{count} alerts, each on the series of its own release"


def proxy_reads_its_file() -> str:
    """The file in the ConfigMap is one the proxy starts with."""
    count = 0
    for where, document in every_manifest():
        text = document.get("data", {}).get("trimtab.toml") if document["kind"] == "ConfigMap" else None
        if text is not None:
            names = re.findall(r"\$\{(\w+)\}", text)
            settings = parse(text, {name: _VARIABLES.get(name, f"redis://{name.lower()}") for name in names})
            if not settings.upstreams:
                raise Wrong(f"{where}: no upstreams")
            count += 1
    return f"{count} rendered trimtab.toml read by the proxy"


def secrets_are_references() -> str:
    """No Secret is made, and each name the file asks the environment for comes from one."""
    for where, document in every_manifest():
        if document["kind"] == "Secret":
            raise Wrong(f"{where}: the chart makes a Secret")
    for (name, _), documents in rendered().items():
        files = [d["data"]["trimtab.toml"] for d in documents if "trimtab.toml" in d.get("data", {})]
        asked = set(re.findall(r"\$\{(\w+)\}", "".join(files)))
        container = proxy_container(documents)
        given = {e["name"] for e in container.get("env", []) if "secretKeyRef" in e.get("valueFrom", {})}
        if asked - given and "envFrom" not in container:
            raise Wrong(f"{name}: {asked - given} is asked for and comes from no Secret")
    return "no Secret made, every ${NAME} of the file comes from one"


def pods_are_locked_down() -> str:
    """No root, a read-only root file system, no capabilities, no token, no privilege to gain."""
    ours = {"trimtab", "redis", "ready"}
    for where, pod in pods():
        if pod["automountServiceAccountToken"] or not pod["securityContext"]["runAsNonRoot"]:
            raise Wrong(f"{where}: token or root")
        for container in pod["containers"]:
            context = container.get("securityContext", {})
            if container["name"] in ours and not (
                context["readOnlyRootFilesystem"]
                and not context["allowPrivilegeEscalation"]
                and context["capabilities"]["drop"] == ["ALL"]
                and context["seccompProfile"]["type"] == "RuntimeDefault"
            ):
                raise Wrong(f"{where}: {container['name']} is not locked down")
    return f"{len(pods())} pods: not root, read-only, no capabilities, no token"


def streams_may_finish() -> str:
    """The pod is given longer than the hook, the drain and the open streams take together."""
    for (name, _), documents in rendered().items():
        text = next((d["data"]["trimtab.toml"] for d in documents if "trimtab.toml" in d.get("data", {})), "")
        found = re.findall(r"(?:grace_s|drain_s) = ([0-9.]+)", text)
        hook = proxy_container(documents)["lifecycle"]["preStop"]["sleep"]["seconds"]
        if proxy_pod(documents)["terminationGracePeriodSeconds"] < hook + sum(map(float, found)):
            raise Wrong(f"{name}: killed before its streams may end")
    return "the grace time covers preStop, drain and streams"


def services_find_their_pods() -> str:
    """What selects pods selects those of the same rendering, and only the right ones."""
    count = 0
    for (name, _), documents in rendered().items():
        labels = {
            d["metadata"]["name"]: d["spec"]["template"]["metadata"]["labels"]
            for d in documents
            if d["kind"] == "Deployment"
        }
        for document in documents:
            selector = _selector(document)
            if selector is None:
                continue
            chosen = [pod for pod, found in labels.items() if selector.items() <= found.items()]
            if chosen != [document["metadata"]["name"].removesuffix("-metrics")]:  # a second Service of the same pods
                raise Wrong(f"{name}: {document['kind']} {document['metadata']['name']} selects {chosen}")
            count += 1
    return f"{count} selectors choose the pods they should"


def _selector(document: dict[str, Any]) -> dict[str, str] | None:
    match document["kind"]:
        case "Service":
            return document["spec"]["selector"]
        case "PodDisruptionBudget" | "PodMonitor":
            return document["spec"]["selector"]["matchLabels"]
        case "NetworkPolicy":
            return document["spec"]["podSelector"]["matchLabels"]
    return None


def sidecar() -> str:
    """The recipe, as a manifest and through the library chart."""
    documents = list(yaml.safe_load_all((ROOT / "helm/examples/sidecar.yaml").read_text()))
    with tempfile.TemporaryDirectory() as folder:
        chart = shutil.copytree(ROOT / "helm", Path(folder) / "helm") / "examples/agent"
        run("helm", "dependency", "build", chart)
        documents += manifests("", chart=str(chart))
        documents += manifests("trimtab: { upstream: '', configMap: mine }", chart=str(chart))
        for number, document in enumerate(documents):
            file = Path(folder) / f"{number}.yaml"
            file.write_text(yaml.safe_dump(document))
            for version in KUBERNETES:
                run("kubernetes-validate", "--strict", "--quiet", "-k", f"{version}.0", file)
    for document in documents:
        (container,) = document["spec"]["template"]["spec"]["initContainers"]
        if container["restartPolicy"] != "Always" or "--host=127.0.0.1" not in container["args"]:
            raise Wrong(f"{document['kind']}: not a sidecar on loopback")
    return "sidecar: the manifest, and the library chart in a chart of one's own"


def schema_is_built() -> str:
    from helm import schema

    if (ROOT / "helm/values.schema.json").read_text() != schema.text():
        raise Wrong("helm/values.schema.json is out of date: python -m helm.schema")
    run("check-jsonschema", "--check-metaschema", "helm/values.schema.json")
    return "values.schema.json is up to date with the proxy's settings and values.yaml"


def packages() -> str:
    with tempfile.TemporaryDirectory() as folder:
        run("helm", "package", "helm", "--destination", folder)
        (package,) = Path(folder).iterdir()
        return f"helm package: {package.name}, {package.stat().st_size // 1024} KiB"


CHECKS: tuple[Callable[[], str], ...] = (
    lint,
    renders,
    refuses,
    kubernetes_accepts,
    operators_accept,
    alerts_are_this_releases,
    proxy_reads_its_file,
    secrets_are_references,
    pods_are_locked_down,
    streams_may_finish,
    services_find_their_pods,
    sidecar,
    schema_is_built,
    packages,
)
