package openapitest

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

// Main runs the tests of a package. If all of them pass, Main also requires that they have received
// certain documented responses. For the package Base, these are all responses except those in the
// map elsewhere. For any other package, these are the responses that the map assigns to that
// package. The check is skipped if only selected tests run. The argument name is the name of the
// package. The result is the exit code for os.Exit.
func Main(m *testing.M, name string) int {
	code := m.Run()

	// A selection of tests cannot receive all responses.
	for _, filter := range []string{"test.run", "test.skip", "test.fuzz", "test.list"} {
		if f := flag.Lookup(filter); f != nil && f.Value.String() != "" {
			return code
		}
	}
	if code != 0 {
		return code
	}

	c, err := Document()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return c.report(os.Stderr, name, elsewhere)
}

// report writes the documented responses that the tests have not received, and the superfluous
// entries of the argument list. The writer out gets a line for each fault. The result code is 1 if
// there is any fault, and otherwise 0.
func (c *Contract) report(out io.Writer, name string, list map[string]string) (code int) {
	documented := c.answers()
	for _, answer := range documented {
		_, status, _ := strings.Cut(answer, " → ")
		where, listed := list[answer]
		if !listed {
			where = list["* → "+status]
		}

		due := where == name || where == "" && name == Base
		switch {
		case due && !c.seen[answer]:
			fmt.Fprintf(out, "openapi.yaml: no test received the response %s\n", answer)
			code = 1
		case listed && where != other && name == Base && c.seen[answer]:
			fmt.Fprintf(out, "elsewhere.go: remove %s, because a test of this package receives this response\n", answer)
			code = 1
		}
	}

	for _, answer := range slices.Sorted(maps.Keys(list)) {
		if !strings.HasPrefix(answer, "* ") && !slices.Contains(documented, answer) {
			fmt.Fprintf(out, "elsewhere.go: the response %s is not documented in openapi.yaml\n", answer)
			code = 1
		}
	}
	return code
}

// answers lists the documented responses in the form "METHOD /path → status". They are sorted, so
// that reports are reproducible.
func (c *Contract) answers() []string {
	var out []string
	for path, item := range c.doc.Paths.Map() {
		for method, operation := range item.Operations() {
			if method == http.MethodHead {
				continue // HEAD has the same responses as GET
			}
			for status := range operation.Responses.Map() {
				out = append(out, method+" "+path+" → "+status)
			}
		}
	}
	slices.Sort(out)
	return out
}
