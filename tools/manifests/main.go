// Command manifests checks the files in deploy/. Kubernetes and Compose must accept every field,
// all references must resolve, and no container may have privileges that it does not need. The
// command works offline.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// checks lists the functions that check a part of deploy/. Their argument is the repository's root.
// Each error is a message to the author of a change.
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

// read returns the content of a file in the repository.
func read(root string, path ...string) ([]byte, error) {
	return os.ReadFile(filepath.Join(append([]string{root}, path...)...))
}
