package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"parley/shared/testkit"
)

// TestProcessesNameRemovedSettings starts each kind of process with a setting that Parley no longer
// has. The process must name the setting in its log. An invalid setting then ends the process.
func TestProcessesNameRemovedSettings(t *testing.T) {
	t.Parallel()
	// docs/cli.md lists the exit statuses of parley.
	statuses := map[string]int{"ingress": 1, "worker": 1, "serve": 80, "up": 80}
	for name, command := range map[string][]string{
		"ingress": {"ingress/cmd/ingress"},
		"worker":  {"workers/cmd/worker"},
		"serve":   {"deploy/standalone/cmd/parley", "serve"},
		"up":      {"deploy/standalone/cmd/parley", "up", "--port=0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			process := exec.CommandContext(t.Context(), testkit.BuildBinary(t, command[0]), command[1:]...)
			process.Env = []string{
				"HOME=" + t.TempDir(), "DATA_DIR=" + t.TempDir(),
				"SANDBOX_WARM=3", "LOG_FORMAT=json", "OTEL_EXPORTER_OTLP_ENDPOINT=collector:4318",
			}
			out, err := process.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "OTEL_EXPORTER_OTLP_ENDPOINT must") {
				t.Errorf("the process ended with %v: %s", err, out)
			}
			if status, want := process.ProcessState.ExitCode(), statuses[name]; status != want {
				t.Errorf("exit status %d, want %d", status, want)
			}
			if warnings := strings.Count(string(out), `"level":"warn"`); warnings != 1 || !strings.Contains(string(out), `"setting":"SANDBOX_WARM"`) {
				t.Errorf("%d warnings: %s", warnings, out)
			}
		})
	}
}

// TestUpChecksItsSettingsFirst starts `parley up` with an invalid setting of each part. The command
// must name the setting and end before it starts a server.
func TestUpChecksItsSettingsFirst(t *testing.T) {
	t.Parallel()
	for setting, value := range map[string]string{
		"DATABASE_URL": "db:5432", "NATS_REPLICAS": "6", "LIMIT_DEMO": "0", "DOCUMENTS_PER_ORGANIZATION": "-1",
		"WORKER_CONCURRENCY": "-1", "MODEL_PRICES": "openai/gpt-5-mini", "DEFAULT_MODEL": "openai/gpt-5-mini", "SECRETS_KEY": "short",
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			data := t.TempDir()
			process := exec.CommandContext(t.Context(), testkit.BuildBinary(t, "deploy/standalone/cmd/parley"), "up", "--port=0")
			process.Env = []string{"HOME=" + t.TempDir(), "DATA_DIR=" + data, setting + "=" + value}
			out, err := process.CombinedOutput()
			if process.ProcessState.ExitCode() != 80 || !strings.Contains(string(out), setting) {
				t.Errorf("the process ended with %v: %s", err, out)
			}
			for _, server := range []string{"postgres", "nats"} {
				if _, err := os.Stat(filepath.Join(data, server)); err == nil {
					t.Errorf("%s was started", server)
				}
			}
		})
	}
}
