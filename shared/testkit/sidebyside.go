package testkit

import (
	"flag"
	"strconv"
)

// SideBySide sets the maximum number of parallel tests in this process, unless -parallel is set.
// Call it in a TestMain. SideBySide parses the flags if they are not parsed yet.
func SideBySide(n int) {
	if !flag.Parsed() {
		flag.Parse() //nolint:revive // only TestMain calls SideBySide
	}
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if chosen {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err) // go test always has this flag
	}
}
