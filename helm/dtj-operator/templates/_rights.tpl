{{/* Exactly what the operator's requests need (operator/src/dtj/kube): in all namespaces, or in each that it watches. */}}
{{- define "dtj-operator.rights" }}
- apiGroups: [dtj.dev]
  resources: [distributedtrainingjobs]
  verbs: [get, list, watch, delete]
- apiGroups: [dtj.dev]
  resources: [distributedtrainingjobs/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [pods, services]
  verbs: [get, list, watch, create, delete]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, create]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{/* Nodes are in no namespace. */}}
{{- define "dtj-operator.nodeRights" }}
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
{{- end }}

{{/* In the release's namespace: the Lease by which it is decided who leads. A right to create knows no names. */}}
{{- define "dtj-operator.leaseRights" }}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "dtj-operator.fullname" . }}]
  verbs: [get, update]
{{- end }}
