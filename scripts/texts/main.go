// Command texts lists user interface strings that are not in tables of texts. Such strings cannot
// be translated.
//
//	texts [FOLDER...]    folders below ingress/web; the default is all folders that have tables
//
// A table of texts is a module named texts.ts or NAME.texts.ts, or any module in a folder named
// texts. The exit code is 1 if the command finds strings. It needs bin/esbuild, which parses
// TypeScript and JSX.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
)

// complete contains the folders and modules below ingress/web that have all of their texts in
// tables.
var complete = []string{"kit", "widget", "dashboard", "reference"}

func main() {
	roots := os.Args[1:]
	if len(roots) == 0 {
		roots = complete
	}

	found, err := strays(context.Background(), ".", roots)
	if err != nil {
		fmt.Fprintln(os.Stderr, "texts:", err)
		os.Exit(2)
	}

	out := bufio.NewWriter(os.Stdout)
	for _, s := range found {
		fmt.Fprintf(out, "%s: %q\n", s.file, s.text)
	}
	if len(found) > 0 {
		fmt.Fprintf(out, "%d strings are outside the text tables\n", len(found))
	}
	if err := out.Flush(); err != nil || len(found) > 0 {
		os.Exit(1)
	}
}
