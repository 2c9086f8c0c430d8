// Command manifests checks what deploy/ asks of others: that Kubernetes and Compose would understand it to the last field, that the
// parts name each other rightly, and that nothing runs with more rights than it needs. It starts nothing and asks nobody.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// checks look at a repository, each at a part of deploy/; their errors are sentences for whoever changed it.
var checks = []struct {
	name  string
	check func(root string) []error
}{
	{"kubernetes", checkKubernetes},
	{"compose", checkCompose},
	{"alerts", checkAlerts},
}

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	failed := false
	for _, c := range checks {
		problems := c.check(root)
		for _, problem := range problems {
			fmt.Fprintf(os.Stderr, "manifests: %s: %v\n", c.name, problem)
		}
		if len(problems) > 0 {
			failed = true
			continue
		}
		fmt.Fprintf(os.Stderr, "manifests: %s: clean\n", c.name)
	}
	if failed {
		os.Exit(1)
	}
}

// read gives a file of the repository.
func read(root string, path ...string) ([]byte, error) {
	return os.ReadFile(filepath.Join(append([]string{root}, path...)...))
}
