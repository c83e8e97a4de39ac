{{/*
The configuration as the file says it, with what the chart itself decides: the port, the drain, and Redis.
A key is never written here: the file refers to it as ${NAME}, and the environment takes it from a Secret.
*/}}
{{- define "trimtab.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- include "trimtab.checkConfig" . -}}
{{- $server := merge (dict "host" "0.0.0.0" "port" (int .Values.containerPort)) ($config.server | default dict) -}}
{{- $_ := set $config "server" $server -}}
{{- $url := include "trimtab.redisUrl" . -}}
{{- if $url -}}
{{- $_ := set $config "redis" (merge (dict "url" $url) ($config.redis | default dict)) -}}
{{- end -}}
{{- include "trimtab-lib.toml" (dict "map" $config "path" "") | trim }}
{{ end -}}

{{- define "trimtab.redisUrl" -}}
{{- if .Values.redis.bundled.enabled -}}
redis://{{ include "trimtab.fullname" . }}-redis:6379/0
{{- else if .Values.redis.urlSecret.name -}}
${TRIMTAB_REDIS_URL}
{{- else -}}
{{ .Values.redis.url }}
{{- end -}}
{{- end -}}

{{- define "trimtab.checkConfig" -}}
{{- $server := .Values.config.server | default dict -}}
{{- $holdsKey := false -}}
{{- range .Values.config.upstreams -}}
{{- with .api_key -}}
{{- $holdsKey = true -}}
{{- if not (regexMatch "^\\$\\{[A-Za-z_][A-Za-z0-9_]*\\}$" .) -}}
{{- fail "config.upstreams[].api_key must be a reference like ${OPENAI_API_KEY}: name the Secret that holds it in secretEnv" -}}
{{- end -}}
{{- end -}}
{{- if .headers }}{{ $holdsKey = true }}{{ end -}}
{{- end -}}
{{- if and $holdsKey (not $server.client_keys) -}}
{{- fail "an upstream has an api_key or headers, so whoever reaches the Service could spend it: set config.server.client_keys (sha256 of the keys clients must send), or leave api_key out so that each client sends its own" -}}
{{- end -}}
{{- if not .Values.config.upstreams -}}
{{- fail "config.upstreams is empty: name at least one place to send requests to" -}}
{{- end -}}
{{- if regexMatch "://[^/@]*:[^$@/]+@" .Values.redis.url -}}
{{- fail "redis.url holds a password: put the whole URL into a Secret and name it in redis.urlSecret" -}}
{{- end -}}
{{- if and .Values.redis.bundled.enabled (or .Values.redis.url .Values.redis.urlSecret.name) -}}
{{- fail "redis.bundled.enabled and redis.url exclude one another" -}}
{{- end -}}
{{- end -}}

{{/* Environment: Secret references, then whatever the operator adds. */}}
{{- define "trimtab.env" -}}
{{- $env := list -}}
{{- range $name, $from := .Values.secretEnv -}}
{{- $env = append $env (dict "name" $name "valueFrom" (dict "secretKeyRef" $from)) -}}
{{- end -}}
{{- with .Values.redis.urlSecret -}}
{{- if and .name (not $.Values.redis.bundled.enabled) -}}
{{- $env = append $env (dict "name" "TRIMTAB_REDIS_URL" "valueFrom" (dict "secretKeyRef" (dict "name" .name "key" .key))) -}}
{{- end -}}
{{- end -}}
{{- concat $env .Values.extraEnv | toYaml -}}
{{- end -}}
