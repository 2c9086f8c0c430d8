package workers_test

import (
	"os"
	"testing"

	"parley/workers"
)

func TestMain(m *testing.M) {
	workers.Extractor() // a worker starts this test binary in a sandbox to read a document
	os.Exit(m.Run())
}
