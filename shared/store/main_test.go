package store_test

import (
	"os"
	"testing"

	"parley/shared/testkit"
)

// sideBySide is the default number of parallel tests. It exceeds the number of cores, because the
// tests mostly wait for the database. The flag -parallel overrides it.
const sideBySide = 6

func TestMain(m *testing.M) {
	testkit.SideBySide(sideBySide)
	os.Exit(m.Run())
}
