package crashpoints

import (
	"os"
	"testing"

	"parley/shared/testkit"
)

// sideBySide is the default number of tests that run in parallel. The tests mostly wait for leases.
// The flag -parallel overrides the number.
const sideBySide = 16

func TestMain(m *testing.M) {
	testkit.SideBySide(sideBySide)
	os.Exit(m.Run())
}
