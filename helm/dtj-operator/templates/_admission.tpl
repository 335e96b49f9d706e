{{/* What both admission policies share. The expressions keep to the CEL of Kubernetes 1.30. */}}

{{/* Name of a policy and of its binding. They belong to the cluster, so the release's namespace keeps two apart. */}}
{{- define "dtj-operator.admission.name" -}}
{{ include "dtj-operator.fullname" .root }}-{{ .policy }}.{{ .root.Release.Namespace }}
{{- end -}}

{{/* Whether there are policies: also where values are kept from a version that had none. */}}
{{- define "dtj-operator.admission.enabled" -}}
{{- if dig "enabled" true (.Values.admission | default dict) }}true{{ end -}}
{{- end -}}

{{/* The operator, as the API server names it. */}}
{{- define "dtj-operator.admission.operator" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "dtj-operator.serviceAccountName" . }}
{{- end -}}

{{/* A list of texts in CEL. */}}
{{- define "dtj-operator.admission.texts" -}}
[{{ range $index, $text := . }}{{ if $index }}, {{ end }}'{{ $text }}'{{ end }}]
{{- end -}}

{{/* Namespaces of the cluster's own. */}}
{{- define "dtj-operator.admission.protected" -}}
['kube-system', 'kube-public', 'kube-node-lease']
{{- end -}}

{{- define "dtj-operator.admission.metadata" -}}
metadata:
  name: {{ include "dtj-operator.admission.name" . }}
  labels:
    {{- include "dtj-operator.labels" .root | nindent 4 }}
{{- end -}}

{{/* The binding of a policy, in the namespaces that the release watches. */}}
{{- define "dtj-operator.admission.binding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
{{ include "dtj-operator.admission.metadata" . }}
spec:
  policyName: {{ include "dtj-operator.admission.name" . }}
  validationActions: [Deny]
  {{- with .namespaces }}
  matchResources:
    namespaceSelector:
      matchExpressions:
      - key: kubernetes.io/metadata.name
        operator: In
        values:
        {{- toYaml . | nindent 8 }}
  {{- end }}
{{- end -}}

{{/*
Variables that tell what pods take from their node beyond Pod Security's level "baseline", in words. They build upon the
variable "templates": a list of objects with metadata and spec.
*/}}
{{- define "dtj-operator.admission.hostVariables" -}}
{{- $capabilities := list "AUDIT_WRITE" "CHOWN" "DAC_OVERRIDE" "FOWNER" "FSETID" "KILL" "MKNOD" "NET_BIND_SERVICE" "SETFCAP" "SETGID" "SETPCAP" "SETUID" "SYS_CHROOT" }}
{{- $capabilities = concat $capabilities (dig "capabilities" list (.Values.admission | default dict)) }}
- name: containers
  expression: "variables.templates.map(t, t.spec.containers + t.spec.?initContainers.orValue([]))"
- name: contexts
  expression: >-
    variables.templates.map(t, [t.spec.?securityContext.orValue({})]
    + (t.spec.containers + t.spec.?initContainers.orValue([])).map(c, c.?securityContext.orValue({})))
- name: requests
  expression: >-
    variables.containers.map(l, l.map(c, [c.?livenessProbe, c.?readinessProbe, c.?startupProbe,
    c.?lifecycle.?postStart, c.?lifecycle.?preStop]))
- name: hostAccess
  expression: >-
    (variables.templates.exists(t, t.spec.?hostNetwork.orValue(false)) ? ['the network of the node'] : [])
    + (variables.templates.exists(t, t.spec.?hostPID.orValue(false)) ? ['the processes of the node (hostPID)'] : [])
    + (variables.templates.exists(t, t.spec.?hostIPC.orValue(false)) ? ['the memory of the node (hostIPC)'] : [])
    + (variables.templates.exists(t, t.spec.?volumes.orValue([]).exists(v, has(v.hostPath)))
    ? ['files of the node (hostPath)'] : [])
    + (variables.containers.exists(l, l.exists(c, c.?ports.orValue([]).exists(p, p.?hostPort.orValue(0) != 0)))
    ? ['a port of the node (hostPort)'] : [])
    + (variables.contexts.exists(l, l.exists(s, s.?privileged.orValue(false))) ? ['privileged containers'] : [])
    + (variables.contexts.exists(l, l.exists(s, s.?capabilities.?add.orValue([]).exists(a, !(a in
    {{ include "dtj-operator.admission.texts" $capabilities }}))))
    ? ['further capabilities'] : [])
    + (variables.contexts.exists(l, l.exists(s, !(s.?procMount.orValue('') in ['', 'Default'])))
    ? ['an unmasked /proc (procMount)'] : [])
    + (variables.contexts.exists(l, l.exists(s, s.?seccompProfile.?type.orValue('') == 'Unconfined'))
    ? ['no seccomp profile'] : [])
    + (variables.contexts.exists(l, l.exists(s, s.?appArmorProfile.?type.orValue('') == 'Unconfined'))
    || variables.templates.exists(t, t.?metadata.?annotations.orValue({}).exists(k,
    k.startsWith('container.apparmor.security.beta.kubernetes.io/') && t.metadata.annotations[k] == 'unconfined'))
    ? ['no AppArmor profile'] : [])
    + (variables.contexts.exists(l, l.exists(s, s.?seLinuxOptions.?user.orValue('') != ''
    || s.?seLinuxOptions.?role.orValue('') != '' || !(s.?seLinuxOptions.?type.orValue('') in
    ['', 'container_t', 'container_init_t', 'container_kvm_t', 'container_engine_t'])))
    ? ['SELinux options'] : [])
    + (variables.contexts.exists(l, l.exists(s, s.?sysctls.orValue([]).exists(c, !(c.name in
    ['kernel.shm_rmid_forced', 'net.ipv4.ip_local_port_range', 'net.ipv4.ip_unprivileged_port_start',
    'net.ipv4.tcp_syncookies', 'net.ipv4.ping_group_range', 'net.ipv4.ip_local_reserved_ports',
    'net.ipv4.tcp_keepalive_time', 'net.ipv4.tcp_fin_timeout', 'net.ipv4.tcp_keepalive_intvl',
    'net.ipv4.tcp_keepalive_probes', 'net.ipv4.tcp_rmem', 'net.ipv4.tcp_wmem']))))
    ? ['unsafe sysctls'] : [])
    + (variables.contexts.exists(l, l.exists(s, s.?windowsOptions.?hostProcess.orValue(false)))
    ? ['Windows host processes'] : [])
    + (variables.requests.exists(l, l.exists(r, r.exists(h,
    h.?httpGet.?host.orValue('') != '' || h.?tcpSocket.?host.orValue('') != '')))
    ? ['requests of the kubelet to other hosts'] : [])
- name: hostAllowed
  expression: "namespaceObject.metadata.?labels[?'dtj.dev/host-access'].orValue('') == 'allowed'"
{{- end -}}
