{{/*
The configuration file: what `config` holds, with what the chart itself decides: the ports, and Redis.
A key is never written here: the file refers to it as ${NAME}, and the environment takes it from a Secret.
*/}}
{{- define "trimtab.config" -}}
{{- include "trimtab.checkConfig" . -}}
{{- $config := deepCopy .Values.config -}}
{{- $listens := dict "host" "0.0.0.0" "port" (int .Values.containerPort) -}}
{{- with .Values.metrics.port -}}
{{- $listens = merge $listens (dict "metrics_host" "0.0.0.0" "metrics_port" (int .)) -}}
{{- end -}}
{{- $_ := set $config "server" (merge $listens ($config.server | default dict)) -}}
{{- $url := include "trimtab.redisUrl" . -}}
{{- if $url -}}
{{- $_ := set $config "redis" (merge (dict "url" $url) ($config.redis | default dict)) -}}
{{- end -}}
{{- $text := include "trimtab-lib.toml" (dict "map" $config "path" "") | trim -}}
{{- include "trimtab.checkReferences" (merge (dict "text" $text) .) -}}
{{ $text }}
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

{{/* What would not work, or would give a key away, is refused before anything is installed. */}}
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
{{- fail "an upstream has an api_key or headers, so anyone who reaches the Service could spend it: set config.server.client_keys (sha256 of the keys clients must send), or leave api_key out so that each client sends its own" -}}
{{- end -}}
{{- range $server.client_keys -}}
{{- if not (regexMatch "^([0-9a-fA-F]{64}|\\$\\{[A-Za-z_][A-Za-z0-9_]*\\})$" .) -}}
{{- fail (printf "config.server.client_keys holds %q, which is neither the sha256 of a key (64 hex digits: printf %%s KEY | sha256sum) nor a reference like ${CLIENT_KEY_SHA256}" (trunc 12 .)) -}}
{{- end -}}
{{- if regexMatch "^0+$" . -}}
{{- fail "config.server.client_keys holds only zeros, which is the hash of no key: printf %s KEY | sha256sum" -}}
{{- end -}}
{{- end -}}
{{- with .Values.config.conversations -}}
{{- if not .store -}}
{{- fail "config.conversations has no store: set store to redis, or to a file on a volume (sqlite:////data/conversations.db); the file's default place is lost with the pod" -}}
{{- end -}}
{{- end -}}
{{- if not .Values.config.upstreams -}}
{{- fail "config.upstreams is empty: name at least one place to send requests to" -}}
{{- end -}}
{{- end -}}

{{- define "trimtab.checkRedis" -}}
{{- if regexMatch "://[^/@]*:[^$@/]+@" .Values.redis.url -}}
{{- fail "redis.url holds a password: put the whole URL into a Secret and name it in redis.urlSecret" -}}
{{- end -}}
{{- if and .Values.redis.bundled.enabled (or .Values.redis.url .Values.redis.urlSecret.name) -}}
{{- fail "redis.bundled.enabled and redis.url exclude one another" -}}
{{- end -}}
{{- if and .Values.existingConfigMap (or .Values.redis.bundled.enabled .Values.redis.url) -}}
{{- fail (printf "the file comes from existingConfigMap, so redis.bundled and redis.url would have no effect: write [redis] url into the ConfigMap %s (redis.urlSecret gives it ${TRIMTAB_REDIS_URL})" .Values.existingConfigMap) -}}
{{- end -}}
{{- end -}}

{{/* Each ${NAME} of the file's text has a variable. What extraEnvFrom holds is not known here. */}}
{{- define "trimtab.checkReferences" -}}
{{- $names := concat (keys .Values.secretEnv) (list "TRIMTAB_REDIS_URL") -}}
{{- range .Values.extraEnv }}{{ $names = append $names .name }}{{ end -}}
{{- $references := regexFindAll "\\$\\{[A-Za-z_][A-Za-z0-9_]*\\}" .text -1 -}}
{{- if ne (len $references) (len (regexFindAll "\\$\\{" .text -1)) -}}
{{- fail (printf "config holds %q, which is not a reference like ${NAME}" (regexFind "\\$\\{([^A-Za-z_]|[A-Za-z0-9_]+([^A-Za-z0-9_}]|$)).{0,12}" .text)) -}}
{{- end -}}
{{- range $references -}}
{{- $name := trimSuffix "}" (trimPrefix "${" .) -}}
{{- if not (or (has $name $names) $.Values.extraEnvFrom) -}}
{{- fail (printf "config refers to %s, which the pod would not have: name its Secret in secretEnv (%s: { name: SECRET, key: KEY })" . $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Environment: Secret references, then what the operator adds. */}}
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
