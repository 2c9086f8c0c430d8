// Command manifests checks the files in deploy/: Kubernetes and Compose must accept every field, references must resolve, and
// no container may have unneeded privileges. The command works offline.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// checks are functions that each check a part of deploy/ in the repository at a root directory. Their errors are messages to the
// author of the change.
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

// read reads a file in the repository.
func read(root string, path ...string) ([]byte, error) {
	return os.ReadFile(filepath.Join(append([]string{root}, path...)...))
}
