package workers_test

import (
	"os"
	"testing"

	"parley/workers"
)

func TestMain(m *testing.M) {
	workers.Extractor() // act as a document reader if a worker started this test binary in a sandbox
	os.Exit(m.Run())
}
