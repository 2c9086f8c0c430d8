package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// repository is the path of this repository.
const repository = "../.."

func TestDeploymentFilesAreValid(t *testing.T) {
	t.Parallel()
	for _, c := range checks {
		for _, problem := range c.check(repository) {
			t.Errorf("%s: %v", c.name, problem)
		}
	}
}

// TestMistakesAreFound makes one mistake in each copy of the manifests, and expects the error that
// reports this mistake.
func TestMistakesAreFound(t *testing.T) {
	t.Parallel()
	for _, mistake := range []struct{ file, old, new, found string }{
		{"deploy/k8s/base/agent.yaml", "readinessProbe:", "readynessProbe:", "unknown field"},
		{"deploy/k8s/base/agent.yaml", "path: /readyz, port: metrics", "path: /readyz, port: metric", "a probe uses the port metric"},
		{"deploy/k8s/base/agent.yaml", "key: NATS_AGENT_PASSWORD", "key: NATS_AGENTS_PASSWORD", "no secret parley-nats"},
		{"deploy/k8s/base/agent.yaml", "name: ROLES", "name: ROLE", "ROLE is not a setting"},
		{"deploy/k8s/base/agent.yaml", "runAsNonRoot: true", "runAsNonRoot: false", "may run as root"},
		{"deploy/k8s/base/agent.yaml", "  strategy:", "  replicas: 2\n  strategy:", "sets replicas"},
		{"deploy/k8s/base/ingress.yaml", "targetPort: http", "targetPort: web", "port web"},
		{"deploy/k8s/overlays/example/web.yaml", "path: /metrics", "path: /metric", "exposes /metrics"},
		{"deploy/k8s/base/scaling.yaml", "consumer: ingest", "consumer: ingests", "an unknown consumer"},
		{"deploy/k8s/base/network.yaml", "app.kubernetes.io/component: nats}", "app.kubernetes.io/component: bus}", "selects no existing pods"},
		{"deploy/k8s/overlays/example/kustomization.yaml", "newTag: \"1.0\"", "newTag: latest", "image without a version"},
		{"deploy/compose.yaml", "read_only: true", "read_only: false", "may write to its root file system"},
		{"deploy/compose.yaml", "target: tools", "target: tool", "no target tool"},
		{"deploy/compose.yaml", "ROLES: voice", "ROLE: voice", "ROLE is not a setting"},
		{"deploy/compose.yaml", "stop_grace_period", "stop_grace_time", "stop_grace_time"},
		{"deploy/grafana/alerts.yaml", "for: 1m", "for: soon", "reading the duration"},
		{"deploy/grafana/alerts.yaml", "== 0", "== ", "reading \"min"},
		{"deploy/grafana/alerts.yaml", "summary:", "short:", "the alert has no summary"},
		{"deploy/grafana/alerts.yaml", "#runs-fail", "#run-fails", "is not a heading"},
		{"deploy/grafana/alerts.yaml", "{{ $labels.dependency }}", "{{ $lables.dependency }}", "undefined variable"},
		{"deploy/grafana/parley.json", "(parley_dependency_up)", "(parley_dependency_up", "the panel \"Servers\""},
		{"deploy/compose.yaml", "./compose/haproxy.cfg", "./compose/proxy.cfg", "proxy.cfg"},
	} {
		t.Run(mistake.file+": "+mistake.new, func(t *testing.T) {
			t.Parallel()
			root := copied(t)
			path := filepath.Join(root, mistake.file)
			raw, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(raw), mistake.old) {
				t.Fatalf("text %q not found: %v", mistake.old, err)
			}
			if err := os.WriteFile(path, []byte(strings.Replace(string(raw), mistake.old, mistake.new, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			var all strings.Builder
			for _, c := range checks {
				for _, problem := range c.check(root) {
					all.WriteString(problem.Error() + "\n")
				}
			}
			if !strings.Contains(all.String(), mistake.found) {
				t.Errorf("output does not contain %q:\n%s", mistake.found, all.String())
			}
		})
	}
}

// copied returns the path of a directory with a copy of the files that the checks read.
func copied(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"deploy/k8s", "deploy/compose", "deploy/docker", "deploy/grafana"} {
		if _, err := os.Stat(filepath.Join(repository, dir)); err != nil {
			continue // the checks report the missing file
		}
		if err := os.CopyFS(filepath.Join(root, dir), os.DirFS(filepath.Join(repository, dir))); err != nil {
			t.Fatal(err)
		}
	}

	for _, file := range []string{"deploy/compose.yaml", "deploy/compose-init.sh", "docs/settings.md", "docs/telemetry.md"} {
		raw, err := os.ReadFile(filepath.Join(repository, file))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(root, file), raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}
