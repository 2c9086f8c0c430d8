package crashpoints

import (
	"flag"
	"os"
	"testing"

	"parley/shared/testkit"
)

// sideBySide is how many tests run at a time, unless -parallel says otherwise: they mostly wait for leases.
const sideBySide = 16

func TestMain(m *testing.M) {
	flag.Parse()
	testkit.SideBySide(sideBySide)
	os.Exit(m.Run())
}
