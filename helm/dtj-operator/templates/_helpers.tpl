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

{{/* Where namespaces are watched, releases of one name in several namespaces have a ClusterRole each. */}}
{{- define "dtj-operator.clusterRoleName" -}}
{{- $full := include "dtj-operator.fullname" . -}}
{{- if .Values.watchNamespaces -}}
{{- $hash := printf "%s/%s" .Release.Namespace $full | sha256sum | trunc 8 -}}
{{- $full = printf "%s-%s-nodes" ($full | trunc 48 | trimSuffix "-") $hash -}}
{{- end -}}
{{- $full -}}
{{- end -}}

{{/* The operator as the API server knows it. */}}
{{- define "dtj-operator.subjects" -}}
- kind: ServiceAccount
  name: {{ include "dtj-operator.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

{{/* True unless a value says false. Of the values that a release keeps from an older chart, new ones are missing. */}}
{{- define "dtj-operator.on" -}}
{{- if ne (toString .) "false" -}}
true
{{- end -}}
{{- end -}}

{{- define "dtj-operator.replicas" -}}
{{- .Values.replicas | default 2 -}}
{{- end -}}

{{/* Labels that choose the operator's pods; they never change in a release's life. */}}
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

{{/* The replicas rather run on different nodes. */}}
{{- define "dtj-operator.affinity" -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 100
    podAffinityTerm:
      topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels:
          {{- include "dtj-operator.selectorLabels" . | nindent 10 }}
{{- end -}}

{{/* A constraint without a labelSelector would count no pod at all. */}}
{{- define "dtj-operator.spread" -}}
{{- $own := dict "matchLabels" (include "dtj-operator.selectorLabels" . | fromYaml) -}}
{{- $all := list -}}
{{- range .Values.topologySpreadConstraints -}}
{{- $all = append $all (set (deepCopy .) "labelSelector" (.labelSelector | default $own)) -}}
{{- end -}}
{{- toYaml $all -}}
{{- end -}}

{{/* Where the job of `helm test` runs: where the operator looks after jobs, in the release's namespace if it can. */}}
{{- define "dtj-operator.selftestNamespace" -}}
{{- $watched := .Values.watchNamespaces | default (list .Release.Namespace) -}}
{{- has .Release.Namespace $watched | ternary .Release.Namespace (first $watched) -}}
{{- end -}}

{{/* They are none of the release's labels, by which Service and PodDisruptionBudget choose the operator's pods. */}}
{{- define "dtj-operator.selftestLabels" -}}
app.kubernetes.io/name: {{ include "dtj-operator.fullname" . }}-test
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* Everything but the pod goes as soon as the test is over; the pod of a test that failed stays for its log. */}}
{{- define "dtj-operator.selftestHook" -}}
helm.sh/hook: test
helm.sh/hook-weight: "-1"
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}

{{/* Two workers that print a line. They run where the operator runs, under Pod Security "restricted". */}}
{{- define "dtj-operator.selftestJob" -}}
apiVersion: dtj.dev/v1alpha1
kind: DistributedTrainingJob
metadata:
  name: dtj-selftest
  namespace: {{ include "dtj-operator.selftestNamespace" . }}
spec:
  framework: Custom
  replicas: 2
  failurePolicy:
    maxRestarts: 0
  # Where the test is interrupted before it deletes the job.
  ttlSecondsAfterFinished: 600
  template:
    spec:
      securityContext:
        runAsNonRoot: true
        seccompProfile:
          type: RuntimeDefault
      {{- with .Values.imagePullSecrets }}
      imagePullSecrets:
      {{- toYaml . | nindent 6 }}
      {{- end }}
      containers:
      - name: trainer
        image: {{ include "dtj-operator.image" . | quote }}
        imagePullPolicy: {{ .Values.image.pullPolicy }}
        command: [python, -c, "import os; print('rank', os.environ['DTJ_NODE_RANK'], 'of', os.environ['DTJ_NNODES'])"]
        resources:
          requests:
            cpu: 10m
            memory: 32Mi
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities:
            drop: [ALL]
      {{- with .Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.tolerations }}
      tolerations:
      {{- toYaml . | nindent 6 }}
      {{- end }}
{{- end -}}
