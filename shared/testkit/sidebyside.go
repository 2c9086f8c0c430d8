package testkit

import (
	"flag"
	"fmt"
	"os"
	"strconv"
)

// SideBySide sets how many parallel tests of this process run at a time, unless -parallel says it. For a TestMain.
func SideBySide(n int) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if chosen {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		fmt.Fprintln(os.Stderr, "testkit:", err)
		os.Exit(1)
	}
}
