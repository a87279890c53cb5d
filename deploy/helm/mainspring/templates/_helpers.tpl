{{- define "mainspring.labels" -}}
app.kubernetes.io/name: mainspring
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The pod of one role: root, role (its name), args, resources, and port (the one that is probed; none for the migration). */}}
{{- define "mainspring.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ .root.Values.terminationGracePeriodSeconds }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
containers:
  - name: {{ .role }}
    image: "{{ .root.Values.image.repository }}:{{ .root.Values.image.tag }}"
    imagePullPolicy: {{ .root.Values.image.pullPolicy }}
    args: {{ tpl (toJson .args) .root }}
    env:
      {{- range $name, $value := merge (dict) .root.Values.settings (include "mainspring.settings" .root | fromYaml) }}
      - {name: {{ printf "MAINSPRING_%s" (upper $name) }}, value: {{ $value | toString | quote }}}
      {{- end }}
    {{- with .port }}
    ports:
      - {name: metrics, containerPort: 9464}
      {{- if eq . "http" }}
      - {name: http, containerPort: 8700}
    lifecycle:
      preStop: {exec: {command: ["sleep", "5"]}}
      {{- end }}
    startupProbe:
      httpGet: {path: /readyz, port: {{ . }}}
      periodSeconds: 2
      failureThreshold: 60
    livenessProbe:
      httpGet: {path: /healthz, port: {{ . }}}
      periodSeconds: 10
      timeoutSeconds: 5
    readinessProbe:
      httpGet: {path: /readyz, port: {{ . }}}
      periodSeconds: 10
      timeoutSeconds: 5
    {{- end }}
    resources: {{ toJson .resources }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
    volumeMounts:
      - {name: secret, mountPath: /run/secrets/mainspring, readOnly: true}
      - {name: data, mountPath: /data}
      - {name: tmp, mountPath: /tmp}
volumes:
  - name: secret
    secret: {secretName: {{ .root.Values.databaseSecret }}, defaultMode: 0440}
  - name: data
    emptyDir: {}
  - name: tmp
    emptyDir: {}
{{- end }}

{{/* What .Values.settings may override. */}}
{{- define "mainspring.settings" -}}
database_url_file: /run/secrets/mainspring/database-url
auto_migrate: {{ not .Values.migrate.enabled }}
api_tokens: true
host: 0.0.0.0
port: 8700
metrics_port: 9464
sys_allow: {{ .Values.metricsNetworks | quote }}
log_format: json
release: {{ .Values.image.tag | quote }}
{{- end }}
