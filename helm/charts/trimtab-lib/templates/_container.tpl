{{/*
The container, the same in the gateway's Deployment and as a sidecar. Takes a dict:

  name          of the container
  image         reference
  pullPolicy
  port          number it listens on
  metricsPort   number of the port for metrics, where the file sets metrics_host and metrics_port in [server]
  host          address it listens on: 0.0.0.0, or 127.0.0.1 for a sidecar, which then needs no client keys
  configMount   true when the volume "trimtab-config" holds trimtab.toml
  upstream      base URL, without a file
  probes        startup, liveness, readiness: timings as Kubernetes has them
  args          more arguments
  env, envFrom, resources, securityContext, volumeMounts, lifecycle   as Kubernetes has them
*/}}
{{- define "trimtab-lib.container" -}}
name: {{ .name }}
image: {{ .image | quote }}
imagePullPolicy: {{ .pullPolicy | default "IfNotPresent" }}
args:
  - serve
  - --host={{ .host }}
  - --port={{ int .port }}
  {{- if .configMount }}
  - --config=/etc/trimtab/trimtab.toml
  {{- end }}
  {{- with .upstream }}
  - --upstream={{ . }}
  {{- end }}
  {{- range .args }}
  - {{ . | quote }}
  {{- end }}
{{- with .env }}
env:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
ports:
  - name: http
    containerPort: {{ int .port }}
    protocol: TCP
  {{- with .metricsPort }}
  - name: metrics
    containerPort: {{ int . }}
    protocol: TCP
  {{- end }}
{{- $loopback := eq .host "127.0.0.1" }}
{{- $timings := merge (dict) (.probes | default dict) (include "trimtab-lib.timings" $loopback | fromYaml) }}
startupProbe:
  {{- include "trimtab-lib.probe" (dict "path" "/healthz/live" "loopback" $loopback "port" .port) | nindent 2 }}
  {{- toYaml $timings.startup | nindent 2 }}
livenessProbe:
  {{- include "trimtab-lib.probe" (dict "path" "/healthz/live" "loopback" $loopback "port" .port) | nindent 2 }}
  {{- toYaml $timings.liveness | nindent 2 }}
{{- if not $loopback }}
readinessProbe:
  {{- include "trimtab-lib.probe" (dict "path" "/healthz/ready" "loopback" false "port" .port) | nindent 2 }}
  {{- toYaml $timings.readiness | nindent 2 }}
{{- end }}
{{- with .lifecycle }}
lifecycle:
  {{- toYaml . | nindent 2 }}
{{- end }}
resources:
  {{- toYaml (.resources | default (dict "requests" (dict "cpu" "50m" "memory" "128Mi") "limits" (dict "memory" "256Mi"))) | nindent 2 }}
securityContext:
  {{- toYaml (.securityContext | default (include "trimtab-lib.securityContext" . | fromYaml)) | nindent 2 }}
volumeMounts:
  - name: trimtab-tmp
    mountPath: /tmp
  {{- if .configMount }}
  - name: trimtab-config
    mountPath: /etc/trimtab
    readOnly: true
  {{- end }}
  {{- with .volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* A probe from within the container starts a Python each time, so it comes less often. */}}
{{- define "trimtab-lib.timings" -}}
startup: { periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 60 }
liveness: { periodSeconds: {{ ternary 30 10 . }}, timeoutSeconds: 5, failureThreshold: {{ ternary 3 6 . }} }
readiness: { periodSeconds: 5, timeoutSeconds: 3, failureThreshold: 2 }
{{- end -}}

{{/* The kubelet reaches a container over the pod's address; one that listens on loopback is asked from within. */}}
{{- define "trimtab-lib.probe" -}}
{{- if .loopback -}}
exec:
  command:
    - /opt/trimtab/bin/python
    - -c
    - import urllib.request as r; r.urlopen("http://127.0.0.1:{{ int .port }}{{ .path }}", timeout=2)
{{- else -}}
httpGet:
  path: {{ .path }}
  port: http
{{- end -}}
{{- end -}}

{{- define "trimtab-lib.securityContext" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
privileged: false
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end -}}
