{{- define "trimtab.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* 55 characters leave room for "-metrics": a Service's name may have 63. */}}
{{- define "trimtab.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 55 | trimSuffix "-" -}}
{{- else if contains (include "trimtab.name" .) .Release.Name -}}
{{- .Release.Name | trunc 55 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "trimtab.name" .) | trunc 55 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "trimtab.selector" -}}
app.kubernetes.io/name: {{ include "trimtab.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: proxy
{{- end -}}

{{- define "trimtab.labels" -}}
{{ include "trimtab.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "trimtab.annotations" -}}
{{- with .Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "trimtab.image" -}}
{{- if not .Values.image.repository -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{- fail (printf "image.repository is empty, and there is no public image. Build one and push it where the cluster can pull it: docker build -t REGISTRY/trimtab:%s . && docker push REGISTRY/trimtab:%s, then --set image.repository=REGISTRY/trimtab" $tag $tag) -}}
{{- end -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "trimtab.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "trimtab.fullname" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end -}}

{{- define "trimtab.configMap" -}}
{{ .Values.existingConfigMap | default (include "trimtab.fullname" .) }}
{{- end -}}

{{/* preStop, then what the proxy gives open streams (its own defaults where config does not set them), then 5 s to exit. */}}
{{- define "trimtab.grace" -}}
{{- $server := .Values.config.server | default dict -}}
{{- $streams := addf (dig "grace_s" 30.0 $server) (dig "drain_s" 2.0 $server) | ceil -}}
{{- .Values.terminationGracePeriodSeconds | default (addf .Values.drain.preStopSeconds $streams 5) | int -}}
{{- end -}}
