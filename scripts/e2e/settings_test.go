package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"parley/shared/testkit"
)

// TestProcessesNameRemovedSettings starts each kind of process with a setting that Parley no longer
// has. The process must name the setting in its log. An invalid setting then ends the process.
func TestProcessesNameRemovedSettings(t *testing.T) {
	t.Parallel()
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
			if warnings := strings.Count(string(out), `"level":"warn"`); warnings != 1 || !strings.Contains(string(out), `"setting":"SANDBOX_WARM"`) {
				t.Errorf("%d warnings: %s", warnings, out)
			}
		})
	}
}
