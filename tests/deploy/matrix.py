"""The charts as people may install them: sets of values that together reach every branch of a template."""

from __future__ import annotations

from functools import cache
from typing import Any

import yaml

from tests.deploy.tools import ROOT, run

# The oldest version that the chart allows, and the newest with a schema.
KUBERNETES = ("1.30", "1.37")
IMAGE = "registry.example/trimtab"

ALL_ON = """
commonLabels: { team: agents }
commonAnnotations: { owner: platform }
image: { digest: sha256:KEY }
imagePullSecrets: [{ name: pull }]
config:
  server: { client_keys: ["KEY"], grace_s: 7.5, max_body_mb: 128 }
  upstreams:
    - { name: a, base_url: "https://a.example/v1", models: ["gpt-*"], api_key: "${A_TOKEN}", headers: { x-org: "1" } }
    - { name: b, base_url: "http://b.example:8000/v1" }
  models: { "gpt-4*": { context_size: 128000, prices: { input: 2.5, output: 10, cache_read: 1.25 } } }
  shaping: { target: 0.7, announce: true, exclude_tools: [memory, notes] }
  profiles: { tight: { shaping: { target: 0.5 } } }
  compaction: { model: same, max_summary_tokens: 1500 }
  telemetry: { log_format: json, traces: true }
secretEnv: { A_TOKEN: { name: keys, key: a } }
extraEnv: [{ name: OTEL_EXPORTER_OTLP_ENDPOINT, value: "http://otel:4318" }]
extraEnvFrom: [{ secretRef: { name: more, optional: true } }]
redis:
  bundled:
    enabled: true
    nodeSelector: { kubernetes.io/os: linux }
    tolerations: [{ key: spot, operator: Exists }]
    affinity: { nodeAffinity: { } }
    priorityClassName: high
drain: { preStopSeconds: 10 }
probes: { liveness: { initialDelaySeconds: 5, timeoutSeconds: 10 } }
autoscaling: { enabled: true, targetMemoryUtilizationPercentage: 80 }
podDisruptionBudget: { minAvailable: 50% }
nodeSelector: { kubernetes.io/os: linux }
tolerations: [{ key: spot, operator: Exists }]
affinity: { nodeAffinity: { } }
priorityClassName: high
hostAliases: [{ ip: 10.0.0.1, hostnames: [a.example] }]
dnsConfig: { options: [{ name: ndots, value: "2" }] }
podLabels: { tier: gateway }
podAnnotations: { sidecar.istio.io/inject: "false" }
initContainers: [{ name: before, image: busybox, command: ["true"] }]
extraContainers: [{ name: beside, image: "busybox:{{ .Chart.AppVersion }}" }]
extraVolumes: [{ name: ca, configMap: { name: ca } }]
extraVolumeMounts: [{ name: ca, mountPath: /ca }]
extraObjects: [{ apiVersion: v1, kind: ConfigMap, metadata: { name: "{{ .Release.Name }}-more" } }]
serviceAccount: { annotations: { role: trimtab } }
service: { type: LoadBalancer, port: 8080, annotations: { internal: "true" }, trafficDistribution: PreferClose }
ingress: { enabled: true, className: nginx, hosts: [llm.example], tls: [{ hosts: [llm.example], secretName: t }] }
httpRoute:
  enabled: true
  parentRefs: [{ name: gateway }]
  hostnames: [llm.example]
  timeouts: { request: 1h30m }
  filters:
    - { type: RequestHeaderModifier, requestHeaderModifier: { set: [{ name: x-trimtab-bypass, value: "true" }] } }
networkPolicy:
  enabled: true
  from: [{ namespaceSelector: {} }]
  upstreamTo: [{ ipBlock: { cidr: 0.0.0.0/0 } }]
metrics:
  serviceMonitor: { enabled: true, labels: { release: prom }, scrapeTimeout: 10s }
  podMonitor: { enabled: true }
  prometheusRule:
    enabled: true
    alertLabels: { team: agents }
    disabled: [TrimtabDown]
    runbookUrl: https://docs.example/operations
  dashboard: { enabled: true, namespace: monitoring }
""".replace("KEY", "5" * 64)

VALUES: dict[str, str] = {
    "defaults": "",
    "everything on": ALL_ON,
    "the gateway example": (ROOT / "helm/examples/gateway.yaml").read_text(),
    "the KEDA example": (ROOT / "helm/examples/keda.yaml").read_text(),
    "Redis elsewhere, its URL in a Secret": "redis: { urlSecret: { name: redis } }\nnetworkPolicy: { enabled: true }",
    "Redis elsewhere, its URL here": "redis: { url: 'redis+sentinel://a:26379,b:26379/main' }",
    "a ConfigMap of one's own": "existingConfigMap: mine",
    "names of one's own": "fullnameOverride: llm\nserviceAccount: { create: false, name: robot }",
    "one replica, nothing around it": (
        "replicaCount: 1\npodDisruptionBudget: { enabled: false }\ntopologySpread: []\ntests: { enabled: false }"
    ),
    "no limits, a longer grace": "resources: {}\nterminationGracePeriodSeconds: 600",
    "a node port": "service: { type: NodePort, nodePort: 30080 }",
    "another name, so another job in Prometheus": "nameOverride: llm\nmetrics: { prometheusRule: { enabled: true } }",
    "hashes of client keys from a Secret": (
        "config: { server: { client_keys: ['${KEY_SHA256}'] } }\nsecretEnv: { KEY_SHA256: { name: k, key: k } }"
    ),
    "references to what extraEnvFrom holds": (
        "config: { upstreams: [{ name: a, base_url: 'http://${HOST}/v1' }] }\n"
        "extraEnvFrom: [{ configMapRef: { name: places } }]"
    ),
    "metrics on a port of their own": (
        "metrics: { port: 9464, serviceMonitor: { enabled: true }, podMonitor: { enabled: true } }\n"
        "networkPolicy: { enabled: true, metricsFrom: [{ namespaceSelector: {} }] }"
    ),
}

# What must not be installed, and a part of the reason.
REFUSED: dict[str, tuple[str, str]] = {
    "a misspelt value": ("replicaCuont: 3", "replicaCuont"),
    "a misspelt setting": ("config: { shaping: { targt: 0.5 } }", "targt"),
    "a setting of the wrong type": ("config: { server: { max_body_mb: large } }", "max_body_mb"),
    "a key in the values": (
        "config: { upstreams: [{ name: a, base_url: 'http://a/v1', api_key: sk-123 }] }", "must be a reference",
    ),
    "a key that anyone could spend": (
        "config: { upstreams: [{ name: a, base_url: 'http://a/v1', api_key: '${A}' }] }", "client_keys",
    ),
    "a password in a URL": ("redis: { url: 'redis://:secret@r:6379/0' }", "urlSecret"),
    "two Redis": ("redis: { url: 'redis://r:6379/0', bundled: { enabled: true } }", "exclude"),
    "nowhere to send to": ("config: { upstreams: [] }", "upstreams is empty"),
    "no image": ("image: { repository: '' }", "docker build -t REGISTRY/trimtab:"),
    "a client's key instead of its hash": (
        "config: { server: { client_keys: [sk-client-1] } }", "neither the sha256 of a key",
    ),
    "the hash of no key": ("config: { server: { client_keys: ['" + "0" * 64 + "'] } }", "only zeros"),
    "a reference without a variable": (
        "config: { upstreams: [{ name: a, base_url: 'https://${PLACE}/v1' }] }", "name its Secret in secretEnv (PLACE",
    ),
    "a reference that is not closed": (
        "config: { upstreams: [{ name: a, base_url: 'https://${PLACE/v1' }] }", "not a reference like ${NAME}",
    ),
    "a bundled Redis that the own file does not know": (
        "existingConfigMap: mine\nredis: { bundled: { enabled: true } }", "the file comes from existingConfigMap",
    ),
    "a Redis that the own file does not know": (
        "existingConfigMap: mine\nredis: { url: 'redis://r:6379/0' }", "the file comes from existingConfigMap",
    ),
    "a probe that never comes": ("probes: { liveness: { periodSeconds: 0 } }", "periodSeconds"),
    "a route's time in words": ("httpRoute: { timeouts: { request: 10 minutes } }", "request"),
}  # fmt: skip


def manifests(values: str, version: str = KUBERNETES[-1], chart: str = "helm") -> list[dict[str, Any]]:
    """The manifests of a chart for some values. Raises Wrong with Helm's message, and Missing."""
    asked = ("--namespace", "n", "--kube-version", version, "--values", "-")
    text = run("helm", "template", "t", chart, *asked, stdin=with_image(values))
    return [document for document in yaml.safe_load_all(text) if document]


def with_image(values: str) -> str:
    """The values, with the image that every installation has to name."""
    whole: dict[str, Any] = yaml.safe_load(values) or {}
    whole["image"] = {"repository": IMAGE, **whole.get("image", {})}
    return yaml.safe_dump(whole)


@cache
def rendered() -> dict[tuple[str, str], list[dict[str, Any]]]:
    """All manifests of the matrix by name and Kubernetes version."""
    return {(name, version): manifests(values, version) for name, values in VALUES.items() for version in KUBERNETES}


def every_manifest() -> list[tuple[str, dict[str, Any]]]:
    """Each manifest of the newest version, with the set of values it comes from."""
    return [
        (f"{name}: {document['kind']} {document['metadata']['name']}", document)
        for (name, version), documents in rendered().items()
        if version == KUBERNETES[-1]
        for document in documents
    ]


def proxy_pod(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """The pod of the proxy itself."""
    made = [d["spec"]["template"]["spec"] for d in documents if d["kind"] == "Deployment"]
    return next(pod for pod in made if any(c["name"] == "trimtab" for c in pod["containers"]))


def proxy_container(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """The container of the proxy itself."""
    containers: list[dict[str, Any]] = proxy_pod(documents)["containers"]
    return next(c for c in containers if c["name"] == "trimtab")


def pods() -> list[tuple[str, dict[str, Any]]]:
    """Every pod the chart makes, as (where, pod spec)."""
    return [
        (where, document["spec"]["template"]["spec"] if "template" in document["spec"] else document["spec"])
        for where, document in every_manifest()
        if document["kind"] in ("Deployment", "Pod")
    ]
