package workers_test

import (
	"os"
	"testing"

	"parley/workers"
)

func TestMain(m *testing.M) {
	workers.Extractor() // these tests' own program reads their documents
	os.Exit(m.Run())
}
