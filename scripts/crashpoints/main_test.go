package crashpoints

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// sideBySide is how many tests run at a time, unless -parallel says otherwise: they mostly wait for leases.
const sideBySide = "16"

func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", sideBySide); err != nil {
			fmt.Fprintln(os.Stderr, "crashpoints:", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}
