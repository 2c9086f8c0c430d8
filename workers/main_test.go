package workers_test

import (
	"os"
	"testing"

	"parley/shared/testkit"
	"parley/workers"
)

// sideBySide is the default number of parallel tests. It exceeds the number of cores, because the
// tests mostly wait for runs. The flag -parallel overrides it.
const sideBySide = 6

func TestMain(m *testing.M) {
	workers.Extractor() // if a worker has started this test binary in a sandbox, this process acts as the document reader
	testkit.SideBySide(sideBySide)
	os.Exit(m.Run())
}
