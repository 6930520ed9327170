{{- define "teammate.fullname" -}}
{{- .Values.fullnameOverride | default .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- end -}}

{{- define "teammate.selector" -}}
app.kubernetes.io/name: teammate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The metadata of an object. Takes a dictionary with root, and optionally annotations. */}}
{{- define "teammate.metadata" -}}
name: {{ include "teammate.fullname" .root }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "teammate.selector" .root | nindent 2 }}
  app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
  {{- with .root.Values.labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (.annotations | default dict) .root.Values.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "teammate.member" -}}
{{- .Values.member | default .Release.Name -}}
{{- end -}}

{{/* Not empty: there may be several members, so each has its index in its name. */}}
{{- define "teammate.indexed" -}}
{{- if or (gt (int .Values.count) 1) .Values.autoscaling.enabled }}true{{ end -}}
{{- end -}}

{{- define "teammate.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "teammate.fullname" .) -}}
{{- end -}}

{{/* The arguments of the runner, as a JSON list. Kubernetes expands $(NAME) from the environment. */}}
{{- define "teammate.arguments" -}}
{{- $run := .Values.runner -}}
{{- $member := include "teammate.member" . -}}
{{- if include "teammate.indexed" . }}{{ $member = printf "%s-$(MEMBER_INDEX)" $member }}{{ end -}}
{{- $arguments := list "run" $member "--via" $run.via "--on-shutdown" $run.onShutdown "--restart" $run.restart "--wrap-up" (toString (int $run.wrapUpSeconds)) "--grace" (toString (int $run.graceSeconds)) -}}
{{- if $run.claim }}{{ $arguments = append $arguments "--claim" }}{{ end -}}
{{- $labels := mergeOverwrite (dict "k8s.pod.name" "$(POD_NAME)" "k8s.namespace.name" "$(POD_NAMESPACE)" "k8s.node.name" "$(NODE_NAME)") (deepCopy $run.labels) -}}
{{- range $key, $value := $labels }}{{ $arguments = concat $arguments (list "--label" (printf "%s=%s" $key $value)) }}{{ end -}}
{{- concat $arguments $run.arguments (list "--") .Values.command | toJson -}}
{{- end -}}

{{- define "teammate.check" -}}
{{- if not .Values.command }}{{ fail "say what the program is: --set command='{python3,/etc/teammate/echo.py}'" }}{{ end -}}
{{- if not .Values.join.existingSecret }}{{ fail "name the Secret with the join string as join.existingSecret; `teamwire invite` prints one" }}{{ end -}}
{{- if .Values.autoscaling.enabled -}}
{{- if ne .Values.kind "StatefulSet" }}{{ fail "autoscaling.enabled needs kind StatefulSet: a Job runs a number of members once" }}{{ end -}}
{{- if not (and .Values.team .Values.autoscaling.prometheus) }}{{ fail "autoscaling.enabled: name the team whose tasks count as team, and the address of Prometheus as autoscaling.prometheus" }}{{ end -}}
{{- if gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas) }}{{ fail "autoscaling.minReplicas exceeds autoscaling.maxReplicas" }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "teammate.pod" -}}
metadata:
  labels:
    {{- include "teammate.selector" . | nindent 4 }}
    teamwire.dev/client: "true"
    teamwire.dev/member: {{ include "teammate.member" . | quote }}
    {{- with .Values.team }}
    teamwire.dev/team: {{ . | quote }}
    {{- end }}
    {{- with merge (dict) .Values.podLabels .Values.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- $checksum := dict }}
  {{- if .Values.files }}{{ $_ := set $checksum "checksum/files" (toJson .Values.files | sha256sum) }}{{ end }}
  {{- with merge $checksum .Values.podAnnotations .Values.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  # A Job decides by its own rules what follows a failure, and needs Pods that never restart for that.
  restartPolicy: {{ if eq .Values.kind "Job" }}Never{{ else }}Always{{ end }}
  serviceAccountName: {{ include "teammate.serviceAccount" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ add .Values.runner.graceSeconds 80 }}
  securityContext:
    {{- toYaml .Values.podSecurityContext | nindent 4 }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: teammate
      {{- $image := .Values.image }}
      image: {{ $image.repository }}{{ if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
      imagePullPolicy: {{ $image.pullPolicy }}
      command: [{{ .Values.runner.program | quote }}]
      args:
        {{- include "teammate.arguments" . | fromJsonArray | toYaml | nindent 8 }}
      workingDir: /workspace
      env:
        - name: TEAMWIRE_JOIN
          valueFrom: {secretKeyRef: {name: {{ .Values.join.existingSecret }}, key: join}}
        {{- with .Values.join.address }}
        - name: TEAMWIRE_ADDRESS
          value: {{ . | quote }}
        {{- end }}
        {{- if .Values.tls.caSecret }}
        - name: TEAMWIRE_CA
          value: /run/secrets/teamwire/ca/ca.crt
        {{- end }}
        {{- if .Values.tls.clientSecret }}
        - name: TEAMWIRE_CERT
          value: /run/secrets/teamwire/client/tls.crt
        - name: TEAMWIRE_KEY
          value: /run/secrets/teamwire/client/tls.key
        {{- end }}
        # The member's identity, for its next life.
        - name: TEAMWIRE_CONTEXT
          value: /var/lib/teamwire/context.json
        - name: HOME
          value: /workspace
        - name: POD_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        - name: POD_NAMESPACE
          valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
        - name: NODE_NAME
          valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
        {{- if include "teammate.indexed" . }}
        - name: MEMBER_INDEX
          valueFrom: {fieldRef: {fieldPath: "metadata.labels['{{ if eq .Values.kind "Job" }}batch.kubernetes.io/job-completion-index{{ else }}apps.kubernetes.io/pod-index{{ end }}']"}}
        {{- end }}
        {{- with .Values.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .Values.envFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      volumeMounts:
        - name: state
          mountPath: /var/lib/teamwire
        - name: workspace
          mountPath: /workspace
        - name: tmp
          mountPath: /tmp
        {{- if .Values.files }}
        - name: files
          mountPath: /etc/teammate
          readOnly: true
        {{- end }}
        {{- if .Values.tls.caSecret }}
        - name: ca
          mountPath: /run/secrets/teamwire/ca
          readOnly: true
        {{- end }}
        {{- if .Values.tls.clientSecret }}
        - name: client
          mountPath: /run/secrets/teamwire/client
          readOnly: true
        {{- end }}
        {{- with .Values.volumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    {{- if eq .Values.kind "Job" }}
    - name: state
      emptyDir:
        sizeLimit: 16Mi
    {{- end }}
    - name: workspace
      emptyDir:
        sizeLimit: {{ .Values.workspace.size }}
    - name: tmp
      emptyDir:
        sizeLimit: {{ .Values.workspace.size }}
    {{- if .Values.files }}
    - name: files
      configMap:
        name: {{ include "teammate.fullname" . }}
    {{- end }}
    {{- if .Values.tls.caSecret }}
    - name: ca
      secret:
        secretName: {{ .Values.tls.caSecret }}
        defaultMode: 0440
        items:
          - {key: ca.crt, path: ca.crt}
    {{- end }}
    {{- if .Values.tls.clientSecret }}
    - name: client
      secret:
        secretName: {{ .Values.tls.clientSecret }}
        defaultMode: 0440
    {{- end }}
    {{- with .Values.volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
{{- end -}}
