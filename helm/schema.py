"""Writes `values.schema.json`: `python -m helm.schema`. Types come from the defaults in `values.yaml`, so a
value cannot be added without being checked; what a default cannot express (choices, ranges, the shape of free
maps) stands in `DECLARED` below. The table `config` is what the proxy itself decodes, taken from its settings, so
that `helm install` refuses a mistake in it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import yaml

from trimtab.settings import Settings

HERE = Path(__file__).parent
Schema = dict[str, Any]

NAME = {"type": "string", "maxLength": 63, "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"}
PORT = {"type": "integer", "minimum": 1, "maximum": 65535}
COUNT = {"type": "integer", "minimum": 0}
SECONDS = {"type": "integer", "minimum": 0}
MAYBE_COUNT = {"type": ["integer", "null"], "minimum": 1}
STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
FREE = {"type": "object"}
OBJECTS = {"type": "array", "items": {"type": "object"}}
TEXTS = {"type": "array", "items": {"type": "string"}}
PORTS = {"type": "array", "items": PORT}
DURATION = {"type": "string", "pattern": "^([0-9]+(ms|[smhd]))*$"}
GATEWAY_DURATION = {"type": "string", "pattern": "^([0-9]{1,5}(h|m|s|ms)){1,4}$"}  # Gateway API, GEP-2257
AVAILABLE = {"anyOf": [{"type": "null"}, COUNT, {"type": "string", "pattern": "^[0-9]+%$"}]}
SECRET_KEY = {
    "type": "object",
    "required": ["name", "key"],
    "properties": {"name": {"type": "string"}, "key": {"type": "string"}, "optional": {"type": "boolean"}},
    "additionalProperties": False,
}
SPREAD = {
    "type": "object",
    "required": ["maxSkew", "topologyKey", "whenUnsatisfiable"],
    "properties": {
        "maxSkew": {"type": "integer", "minimum": 1},
        "topologyKey": {"type": "string"},
        "whenUnsatisfiable": {"enum": ["ScheduleAnyway", "DoNotSchedule"]},
    },
    "additionalProperties": False,
}
PROBE = {
    "type": "object",
    "properties": {
        name: {"type": "integer", "minimum": 1}
        for name in ("periodSeconds", "timeoutSeconds", "failureThreshold", "successThreshold", "initialDelaySeconds")
    },
    "additionalProperties": False,
}
_MONITOR = {"labels": STRINGS, "interval": DURATION, "scrapeTimeout": DURATION}

DECLARED: dict[str, Schema] = {
    "nameOverride": NAME,
    "fullnameOverride": NAME,
    "commonLabels": STRINGS,
    "commonAnnotations": STRINGS,
    "image.digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
    "image.pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
    "imagePullSecrets": OBJECTS,
    "secretEnv": {
        "type": "object",
        "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
        "additionalProperties": SECRET_KEY,
    },
    "extraEnv": OBJECTS,
    "extraEnvFrom": OBJECTS,
    "extraArgs": TEXTS,
    "redis.url": {"type": "string", "pattern": "^(rediss?(\\+sentinel|\\+cluster)?://|$)"},
    "redis.bundled.resources": FREE,
    "redis.bundled.nodeSelector": STRINGS,
    "redis.bundled.tolerations": OBJECTS,
    "redis.bundled.affinity": FREE,
    "replicaCount": {"type": ["integer", "null"], "minimum": 0},
    "revisionHistoryLimit": COUNT,
    "strategy": FREE,
    "containerPort": {**PORT, "minimum": 1024},
    "resources": FREE,
    "drain.preStopSeconds": {**SECONDS, "minimum": 1},
    "terminationGracePeriodSeconds": {"type": ["integer", "null"], "minimum": 1},
    "lifecycle": FREE,
    **{f"probes.{name}": PROBE for name in ("startup", "liveness", "readiness")},
    "autoscaling.minReplicas": {**COUNT, "minimum": 1},
    "autoscaling.maxReplicas": {**COUNT, "minimum": 1},
    "autoscaling.targetCPUUtilizationPercentage": MAYBE_COUNT,
    "autoscaling.targetMemoryUtilizationPercentage": MAYBE_COUNT,
    "autoscaling.extraMetrics": OBJECTS,
    "autoscaling.behavior": FREE,
    "podDisruptionBudget.minAvailable": AVAILABLE,
    "podDisruptionBudget.maxUnavailable": AVAILABLE,
    "topologySpread": {"type": "array", "items": SPREAD},
    "nodeSelector": STRINGS,
    "tolerations": OBJECTS,
    "affinity": FREE,
    "hostAliases": OBJECTS,
    "dnsConfig": FREE,
    "podLabels": STRINGS,
    "podAnnotations": STRINGS,
    "podSecurityContext": FREE,
    "securityContext": FREE,
    "initContainers": OBJECTS,
    "extraContainers": OBJECTS,
    "extraVolumes": OBJECTS,
    "extraVolumeMounts": OBJECTS,
    "extraObjects": OBJECTS,
    "serviceAccount.annotations": STRINGS,
    "service.type": {"enum": ["ClusterIP", "NodePort", "LoadBalancer"]},
    "service.port": PORT,
    "service.nodePort": {"type": ["integer", "null"], "minimum": 30000, "maximum": 32767},
    "service.annotations": STRINGS,
    "ingress.annotations": STRINGS,
    "ingress.hosts": TEXTS,
    "ingress.tls": OBJECTS,
    "httpRoute.annotations": STRINGS,
    "httpRoute.parentRefs": OBJECTS,
    "httpRoute.hostnames": TEXTS,
    "httpRoute.filters": OBJECTS,
    "httpRoute.timeouts": {
        "type": "object",
        "properties": {"request": GATEWAY_DURATION, "backendRequest": GATEWAY_DURATION},
        "additionalProperties": False,
    },
    "networkPolicy.from": OBJECTS,
    "networkPolicy.metricsFrom": OBJECTS,
    "networkPolicy.otlpPorts": PORTS,
    "networkPolicy.otlpTo": OBJECTS,
    "networkPolicy.upstreamPorts": PORTS,
    "networkPolicy.upstreamTo": OBJECTS,
    "networkPolicy.redisPorts": PORTS,
    "networkPolicy.extraIngress": OBJECTS,
    "networkPolicy.extraEgress": OBJECTS,
    "metrics.port": {"type": ["integer", "null"], "minimum": 1024, "maximum": 65535},
    **{f"metrics.serviceMonitor.{key}": value for key, value in _MONITOR.items()},
    "metrics.serviceMonitor.relabelings": OBJECTS,
    "metrics.serviceMonitor.metricRelabelings": OBJECTS,
    **{f"metrics.podMonitor.{key}": value for key, value in _MONITOR.items()},
    "metrics.podMonitor.relabelings": OBJECTS,
    "metrics.podMonitor.metricRelabelings": OBJECTS,
    "metrics.prometheusRule.labels": STRINGS,
    "metrics.prometheusRule.alertLabels": STRINGS,
    "metrics.prometheusRule.disabled": TEXTS,
    "metrics.prometheusRule.extraGroups": OBJECTS,
    "metrics.dashboard.labels": STRINGS,
    "metrics.dashboard.annotations": STRINGS,
}


def inferred(value: Any, path: str) -> Schema:
    """The schema of one value from its default. Raises KeyError for a default that does not show its type."""
    if path in DECLARED:
        return DECLARED[path]
    match value:
        case bool():
            return {"type": "boolean"}
        case str():
            return {"type": "string"}
        case dict() if value:
            properties = {key: inferred(item, f"{path}.{key}".lstrip(".")) for key, item in value.items()}
            return {"type": "object", "properties": properties, "additionalProperties": False}
    raise KeyError(f"{path}: the default does not show its type, add it to DECLARED")


def proxy_tables() -> dict[str, Schema]:
    """The proxy's own settings, a definition for each table, without titles, texts and defaults."""
    tables = msgspec.json.schema(Settings)["$defs"]
    tables["RedisSettings"].pop("required")  # the chart sets the address
    return {name: _bare(table) for name, table in tables.items()}


def _bare(schema: Any) -> Any:
    """Without what only people read; `properties` holds names, which may be `title` or `default` themselves."""
    if isinstance(schema, list):
        return [_bare(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _bare(item) for name, item in value.items()} if key == "properties" else _bare(value)
        for key, value in schema.items()
        if key not in ("title", "description", "default") and value != []
    }


def built() -> Schema:
    """The whole schema."""
    defaults = yaml.safe_load((HERE / "values.yaml").read_text())
    DECLARED["config"] = {"$ref": "#/$defs/Settings"}
    schema = inferred(defaults, "")
    schema["$defs"] = proxy_tables()
    schema["properties"]["global"] = {"type": "object"}  # Helm's own, when this chart is a dependency
    schema["properties"]["trimtab-lib"] = {"type": "object"}
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of trimtab", **schema}


def text() -> str:
    """The file's content."""
    return json.dumps(built(), indent=2) + "\n"


if __name__ == "__main__":
    (HERE / "values.schema.json").write_text(text())
