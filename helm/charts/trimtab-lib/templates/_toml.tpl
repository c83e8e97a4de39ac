{{/*
A map as TOML. Helm's own toToml writes whole numbers as floats (a port becomes 8080.0), so: scalars and lists
first, then a [table] for each map and an [[array of tables]] for each list of maps, however deep.

  include "trimtab-lib.toml" (dict "map" .Values.config "path" "")
*/}}
{{- define "trimtab-lib.toml" -}}
{{- $path := .path -}}
{{- range $key, $value := .map -}}
{{- if not (or (kindIs "map" $value) (eq (include "trimtab-lib.isTables" $value) "yes") (kindIs "invalid" $value)) }}
{{ include "trimtab-lib.tomlKey" $key }} = {{ include "trimtab-lib.tomlValue" $value }}
{{- end -}}
{{- end -}}
{{- range $key, $value := .map -}}
{{- $here := include "trimtab-lib.tomlKey" $key -}}
{{- if $path }}{{ $here = printf "%s.%s" $path $here }}{{ end -}}
{{- if kindIs "map" $value }}

[{{ $here }}]
{{- include "trimtab-lib.toml" (dict "map" $value "path" $here) -}}
{{- else if eq (include "trimtab-lib.isTables" $value) "yes" -}}
{{- range $value }}

[[{{ $here }}]]
{{- include "trimtab-lib.toml" (dict "map" . "path" $here) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "trimtab-lib.isTables" -}}
{{- if and (kindIs "slice" .) . }}{{ if kindIs "map" (first .) }}yes{{ end }}{{ end -}}
{{- end -}}

{{- define "trimtab-lib.tomlKey" -}}
{{- if regexMatch "^[A-Za-z0-9_-]+$" . }}{{ . }}{{ else }}{{ toRawJson . }}{{ end -}}
{{- end -}}

{{- define "trimtab-lib.tomlValue" -}}
{{- if kindIs "slice" . -}}
[{{ range $index, $item := . }}{{ if $index }}, {{ end }}{{ include "trimtab-lib.tomlValue" $item }}{{ end }}]
{{- else if kindIs "map" . -}}
{ {{- $first := true }}{{ range $key, $item := . }}{{ if not $first }},{{ end }}{{ $first = false }} {{ include "trimtab-lib.tomlKey" $key }} = {{ include "trimtab-lib.tomlValue" $item }}{{ end }} }
{{- else if kindIs "string" . -}}
{{ toRawJson . }}
{{- else if or (kindIs "bool" .) (eq (float64 .) (floor .)) -}}
{{ if kindIs "bool" . }}{{ . }}{{ else }}{{ int64 . }}{{ end }}
{{- else -}}
{{ . }}
{{- end -}}
{{- end -}}
