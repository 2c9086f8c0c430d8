package workers_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"parley/shared/config"
	"parley/workers"
)

func TestZZSpeed(t *testing.T) {
	r := newRigOf(t, config.Workers{}, workers.RoleIngest)
	content := book(1200)
	if p := os.Getenv("SPEED_PDF"); p != "" {
		content, _ = os.ReadFile(p)
	}
	path := t.TempDir() + "/a.pdf"
	_ = os.WriteFile(path, content, 0o600)
	for i := range 3 {
		began := time.Now()
		_ = exec.Command("pdftotext", path, "/dev/null").Run()
		plain := time.Since(began)
		began = time.Now()
		d := r.processed(r.sendDocument("log.pdf", append(content, byte('a'+i))).ID)
		took := time.Since(began)
		t.Logf("%s %d pages %d chunks: pdftotext %s, ingest %s: %.0f%% (%+v)", d.Status, *d.Pages, d.Chunks, plain, took, 100*plain.Seconds()/took.Seconds(), d.Error)
	}
}
