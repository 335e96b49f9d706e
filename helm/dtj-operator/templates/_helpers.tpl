{{/* Name of the application. */}}
{{- define "dtj-operator.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 53 | trimSuffix "-" -}}
{{- end -}}

{{/* Name of the release's objects, a DNS label: <release>-dtj-operator, without saying a word twice. */}}
{{- define "dtj-operator.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else -}}
{{- $name := include "dtj-operator.name" . -}}
{{- $full := printf "%s-%s" .Release.Name $name -}}
{{- if contains $name .Release.Name -}}
{{- $full = .Release.Name -}}
{{- else if hasPrefix (printf "%s-" .Release.Name) $name -}}
{{- $full = $name -}}
{{- end -}}
{{- $full | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "dtj-operator.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "dtj-operator.fullname" .) -}}
{{- end -}}

{{/* Labels that choose the operator's pod; they never change in a release's life. */}}
{{- define "dtj-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "dtj-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "dtj-operator.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "dtj-operator.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "dtj-operator.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Annotations of the operator's pod; what is written in podAnnotations wins. */}}
{{- define "dtj-operator.podAnnotations" -}}
{{- $own := dict -}}
{{- if (.Values.metrics).annotations -}}
{{- $own = dict "prometheus.io/scrape" "true" "prometheus.io/port" "8080" "prometheus.io/path" "/metrics" -}}
{{- end -}}
{{- merge (dict) .Values.podAnnotations $own | toYaml -}}
{{- end -}}
