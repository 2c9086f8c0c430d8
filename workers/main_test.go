package workers_test

import (
	"os"
	"testing"

	"parley/workers"
)

func TestMain(m *testing.M) {
	workers.Extractor() // the test binary reads documents in sandboxes
	os.Exit(m.Run())
}
