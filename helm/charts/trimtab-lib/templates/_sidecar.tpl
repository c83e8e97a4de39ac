{{/*
Trimtab beside an agent: a native sidecar, that is an init container which stays. It is up before the agent
starts and goes after it; it listens on loopback, so nobody else reaches it and it needs no client keys.

In a chart that has trimtab-lib as a dependency:

  spec:
    initContainers:
      {{- include "trimtab-lib.sidecar" (dict "image" "REGISTRY/trimtab:0.1.0" "upstream" "https://…/v1") | nindent 6 }}
    containers:
      - name: agent
        env:
          - { name: OPENAI_BASE_URL, value: "http://127.0.0.1:8080/v1" }
    volumes:
      {{- include "trimtab-lib.sidecarVolumes" (dict) | nindent 6 }}

Takes what trimtab-lib.container takes; only image is needed, and upstream or configMap. With `"configMap" "NAME"` in
both calls the file trimtab.toml comes from that ConfigMap.

A Prometheus outside the pod does not reach loopback. For its sake let the file open a second port, and name it here as
`"metricsPort" 9464`; a PodMonitor then finds the port `metrics`:

  [server]
  metrics_host = "0.0.0.0"
  metrics_port = 9464
*/}}
{{- define "trimtab-lib.sidecar" -}}
{{- $image := required "trimtab-lib.sidecar: image is needed" .image -}}
{{- if not (or .upstream .configMap) }}{{ fail "trimtab-lib.sidecar: upstream or configMap is needed" }}{{ end -}}
{{- $given := dict "name" "trimtab" "host" "127.0.0.1" "port" 8080 "configMount" (not (empty .configMap)) -}}
{{- $container := include "trimtab-lib.container" (merge (dict) . $given) | fromYaml -}}
{{- list (merge (dict "restartPolicy" "Always") $container) | toYaml -}}
{{- end -}}

{{- define "trimtab-lib.sidecarVolumes" -}}
- name: trimtab-tmp
  emptyDir:
    sizeLimit: 64Mi
{{- with .configMap }}
- name: trimtab-config
  configMap:
    name: {{ . }}
{{- end }}
{{- end -}}
