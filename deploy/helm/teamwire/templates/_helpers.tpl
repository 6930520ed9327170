{{- define "teamwire.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 53 | trimSuffix "-" -}}
{{- end -}}

{{/* Short enough to append "-headless" or a Pod's suffix. */}}
{{- define "teamwire.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 53 | trimSuffix "-" -}}
{{- else if contains (include "teamwire.name" .) .Release.Name -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "teamwire.name" .) | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "teamwire.selector" -}}
app.kubernetes.io/name: {{ include "teamwire.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The metadata of an object. Takes a dictionary with root and component, and optionally name, labels and annotations. */}}
{{- define "teamwire.metadata" -}}
name: {{ .name | default (include "teamwire.fullname" .root) }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "teamwire.selector" .root | nindent 2 }}
  app.kubernetes.io/component: {{ .component }}
  app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
  {{- with merge (dict) (.labels | default dict) .root.Values.labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (.annotations | default dict) .root.Values.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "teamwire.image" -}}
{{- $image := .image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "teamwire.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "teamwire.fullname" .) -}}
{{- end -}}

{{/* The privileges that no container needs. */}}
{{- define "teamwire.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "teamwire.operatorSecret" -}}
{{- .Values.operator.existingSecret | default (printf "%s-operator" (include "teamwire.fullname" .)) -}}
{{- end -}}

{{- define "teamwire.storeSecret" -}}
{{- .Values.store.existingSecret | default (printf "%s-store" (include "teamwire.fullname" .)) -}}
{{- end -}}

{{- define "teamwire.tlsSecret" -}}
{{- if eq .Values.tls.kind "existingSecret" -}}
{{- required "tls.kind is existingSecret: name the Secret as tls.existingSecret" .Values.tls.existingSecret -}}
{{- else -}}
{{- printf "%s-tls" (include "teamwire.fullname" .) -}}
{{- end -}}
{{- end -}}

{{/* The names of a certificate, as a JSON list. */}}
{{- define "teamwire.hosts" -}}
{{- $hosts := list "localhost" -}}
{{- range list (include "teamwire.fullname" .) (printf "%s-headless" (include "teamwire.fullname" .)) -}}
{{- $in := printf "%s.%s" . $.Release.Namespace -}}
{{- $hosts = concat $hosts (list . $in (printf "%s.svc" $in) (printf "%s.svc.cluster.local" $in)) -}}
{{- end -}}
{{- concat $hosts .Values.tls.hosts | uniq | toJson -}}
{{- end -}}

{{- define "teamwire.scheme" -}}
{{- if eq .Values.tls.kind "none" }}http{{ else }}https{{ end -}}
{{- end -}}

{{/* A duration of the configuration in whole seconds, rounded up. */}}
{{- define "teamwire.seconds" -}}
{{- $number := regexFind "^[0-9]+" . | int64 -}}
{{- $unit := regexFind "[a-z]+$" . -}}
{{- if eq $unit "ms" -}}
{{- div (add $number 999) 1000 -}}
{{- else -}}
{{- mul $number (get (dict "s" 1 "m" 60 "h" 3600) $unit | required (printf "drain.hard_stop is %q: write it as 30s or 1m" .)) -}}
{{- end -}}
{{- end -}}

{{/* How long a Pod may take to end: its wait, the coordinator's hard stop, and a margin. */}}
{{- define "teamwire.terminationGracePeriodSeconds" -}}
{{- $drain := .Values.config.drain | default dict -}}
{{- add .Values.preStopSeconds (include "teamwire.seconds" ($drain.hard_stop | default "30s")) 10 -}}
{{- end -}}

{{/* A value of the configuration in TOML. Helm reads numbers as floats, but the configuration takes integers. */}}
{{- define "teamwire.toml" -}}
{{- if or (kindIs "float64" .) (kindIs "int" .) (kindIs "int64" .) }}{{ int64 . }}{{ else }}{{ toJson . }}{{ end -}}
{{- end -}}

{{/* The coordinator's configuration. */}}
{{- define "teamwire.config" -}}
{{- $own := dict
  "listen" (printf "%s:7420" .Values.bindAddress)
  "health" (printf "%s:7421" .Values.bindAddress)
  "operator_credential" "/run/secrets/teamwire/operator/credential"
  "advertise" (.Values.advertise | default (list (printf "%s://%s-headless.%s.svc:7420" (include "teamwire.scheme" .) (include "teamwire.fullname" .) .Release.Namespace)))
-}}
{{- if .Values.metrics.enabled }}{{ $_ := set $own "metrics" (printf "%s:9464" .Values.bindAddress) }}{{ end -}}
{{- $tls := dict -}}
{{- if eq .Values.tls.kind "none" -}}
{{- $_ := set $own "insecure_no_tls" true -}}
{{- else -}}
{{- $_ := set $tls "cert" "/run/secrets/teamwire/tls/tls.crt" -}}
{{- $_ := set $tls "key" "/run/secrets/teamwire/tls/tls.key" -}}
{{- if .Values.tls.clientCaSecret }}{{ $_ := set $tls "client_ca" "/run/secrets/teamwire/client-ca/ca.crt" }}{{ end -}}
{{- $_ := set $own "tls" $tls -}}
{{- end -}}
{{- range $key := list "listen" "health" "metrics" "operator_credential" "advertise" "store" "insecure_no_tls" -}}
{{- if hasKey $.Values.config $key }}{{ fail (printf "config.%s is the chart's to set: see bindAddress, metrics, operator, advertise, store and tls in its values" $key) }}{{ end -}}
{{- end -}}
{{- range $key := list "cert" "key" "client_ca" -}}
{{- if hasKey ($.Values.config.tls | default dict) $key }}{{ fail (printf "config.tls.%s is the chart's to set: see tls in its values" $key) }}{{ end -}}
{{- end -}}
{{- $all := mergeOverwrite (dict "log_format" "json") (deepCopy .Values.config) $own -}}
{{- range $key, $value := $all -}}
{{- if not (kindIs "map" $value) }}
{{ $key }} = {{ include "teamwire.toml" $value }}
{{- end -}}
{{- end -}}
{{- range $table, $values := $all -}}
{{- if kindIs "map" $values }}

[{{ $table }}]
{{- range $key, $value := $values }}
{{ $key }} = {{ include "teamwire.toml" $value }}
{{- end -}}
{{- end -}}
{{- end }}
{{ end -}}

{{/* The host's file. */}}
{{- define "teamwire.hostConfig" -}}
{{- $host := .Values.host -}}
name = {{ $host.name | default (include "teamwire.fullname" .) | toJson }}
slots = {{ int $host.slots }}

[labels]
{{- range $key, $value := $host.labels }}
{{ toJson $key }} = {{ toJson $value }}
{{- end }}

[kubernetes]
namespace = {{ .Release.Namespace | toJson }}
owner = {{ printf "%s-host" (include "teamwire.fullname" .) | toJson }}
keep = {{ $host.keepFinished | toJson }}
{{- range $name, $profile := $host.profiles }}

[profiles.{{ toJson $name }}]
pod = {{ printf "%s.yaml" $name | toJson }}
{{- range $key, $value := omit $profile "pod" }}
{{ snakecase $key }} = {{ toJson $value }}
{{- end }}
{{- end }}
{{ end -}}

{{/* Fails for values that contradict each other. */}}
{{- define "teamwire.check" -}}
{{- if eq .Values.store.kind "embedded" -}}
{{- if or .Values.autoscaling.enabled (ne (int .Values.replicas) 1) -}}
{{- fail "store.kind is embedded: its file belongs to one coordinator, so set replicas to 1 and autoscaling.enabled to false, or use Redis" -}}
{{- end -}}
{{- end -}}
{{- if and (eq .Values.store.kind "redis") (not (or .Values.store.url .Values.store.existingSecret)) -}}
{{- fail "store.kind is redis: say where it is, with store.url or store.existingSecret" -}}
{{- end -}}
{{- if and .Values.store.url (or (ne .Values.store.kind "redis") .Values.store.existingSecret) -}}
{{- fail "store.url is for store.kind redis without store.existingSecret; leave it out otherwise" -}}
{{- end -}}
{{- if and (eq .Values.tls.kind "certManager") (not .Values.tls.certManager.issuerRef.name) -}}
{{- fail "tls.kind is certManager: name the issuer as tls.certManager.issuerRef.name" -}}
{{- end -}}
{{- if and .Values.tls.existingSecret (ne .Values.tls.kind "existingSecret") -}}
{{- fail "tls.existingSecret is for tls.kind existingSecret; leave it out otherwise" -}}
{{- end -}}
{{- if and (eq .Values.tls.kind "none") .Values.tls.clientCaSecret -}}
{{- fail "tls.clientCaSecret needs TLS: choose another tls.kind than none" -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.enabled) -}}
{{- fail "metrics.serviceMonitor.enabled needs metrics.enabled" -}}
{{- end -}}
{{- if and .Values.metrics.prometheusRule.enabled (not .Values.metrics.serviceMonitor.enabled) -}}
{{- fail "metrics.prometheusRule.enabled needs metrics.serviceMonitor.enabled, which names the job that its rules select" -}}
{{- end -}}
{{- if .Values.host.enabled -}}
{{- if not .Values.host.join.existingSecret -}}
{{- fail "host.enabled: name the Secret with the output of `teamwire invite --host` as host.join.existingSecret" -}}
{{- end -}}
{{- if not .Values.host.profiles -}}
{{- fail "host.enabled: say what members it may start, as host.profiles" -}}
{{- end -}}
{{- end -}}
{{- if .Values.route.enabled -}}
{{- if not .Values.route.parentRefs -}}
{{- fail "route.enabled: name the Gateway as route.parentRefs" -}}
{{- end -}}
{{- if eq .Values.tls.kind "generated" -}}
{{- fail "route.enabled: join strings would identify the generated authority, but clients see the Gateway's certificate. Set tls.kind to certManager, existingSecret or none" -}}
{{- end -}}
{{- if .Values.tls.clientCaSecret -}}
{{- fail "route.enabled: a Gateway that terminates TLS presents no client's certificate. Leave tls.clientCaSecret out, or use service.type LoadBalancer" -}}
{{- end -}}
{{- end -}}
{{- end -}}
