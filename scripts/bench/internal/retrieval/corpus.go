package retrieval

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/doc"
	"go/parser"
	"go/token"
	"html"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// Document is the documentation of a package.
type Document struct {
	Name     string // "encoding.json"
	Sections []Section
}

// Section is the comment of a symbol, or of the package itself.
type Section struct {
	Heading    string
	Paragraphs []string
}

// Text is the section without its heading.
func (s Section) Text() string { return strings.Join(s.Paragraphs, "\n") }

// Sizes in bytes of the sections that questions are about.
const (
	minSection = 200
	maxSection = 6000
)

// Gather reads packages below a directory of Go sources until it has enough sections for questions.
func Gather(root string, sections int) ([]Document, error) {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || !entry.IsDir():
			return err
		case entry.Name() == "testdata" || entry.Name() == "vendor":
			return fs.SkipDir
		}
		dirs = append(dirs, path)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("looking for packages: %w", err)
	}

	var all []Document
	seen, found := map[string]bool{}, 0
	for _, dir := range dirs {
		d, err := read(root, dir)
		if err != nil {
			return nil, err
		}
		n := 0
		for _, section := range d.Sections {
			if text := section.Text(); section.askable() && !seen[text] { // some packages repeat others' comments
				seen[text] = true
				n++
			}
		}
		if n == 0 {
			continue
		}
		all = append(all, d)
		if found += n; found >= sections {
			return all, nil
		}
	}
	return nil, fmt.Errorf("too few sections: only %d can be asked about", found)
}

// read reads the documentation of a package. A directory without Go files yields an empty document.
func read(root, dir string) (out Document, err error) {
	pkg, err := build.ImportDir(dir, 0)
	if err != nil {
		return out, nil //nolint:nilerr // no package for this system
	}

	files := token.NewFileSet()
	var sources []*ast.File
	for _, name := range pkg.GoFiles {
		file, err := parser.ParseFile(files, filepath.Join(dir, name), nil, parser.ParseComments)
		if err != nil {
			return out, fmt.Errorf("reading documentation: %w", err)
		}
		sources = append(sources, file)
	}

	path, err := filepath.Rel(root, dir)
	if err != nil {
		return out, fmt.Errorf("naming package: %w", err)
	}

	documented, err := doc.NewFromFiles(files, sources, path)
	if err != nil {
		return out, fmt.Errorf("reading documentation of %s: %w", path, err)
	}

	out.Name = strings.ReplaceAll(filepath.ToSlash(path), "/", ".")
	out.add("Package "+pkg.Name, documented.Doc)
	functions := documented.Funcs
	for _, t := range documented.Types {
		out.add(t.Name, t.Doc)
		functions = slices.Concat(functions, t.Funcs, t.Methods)
	}

	for _, f := range functions {
		out.add(strings.TrimSpace(f.Recv+" "+f.Name), f.Doc)
	}
	return out, nil
}

func (d *Document) add(heading, comment string) {
	section := Section{Heading: heading}
	for paragraph := range strings.SplitSeq(comment, "\n\n") {
		if words := strings.Fields(paragraph); len(words) > 0 {
			section.Paragraphs = append(section.Paragraphs, strings.Join(words, " "))
		}
	}
	if len(section.Paragraphs) > 0 {
		d.Sections = append(d.Sections, section)
	}
}

func (s Section) askable() bool {
	n := len(s.Text())
	return n >= minSection && n <= maxSection
}

// HTML returns the document as an HTML page.
func (d *Document) HTML() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "<!DOCTYPE html>\n<html lang=\"en\"><head><title>%[1]s</title></head><body>\n<h1>%[1]s</h1>\n", html.EscapeString(d.Name))
	for _, section := range d.Sections {
		fmt.Fprintf(&b, "<h2>%s</h2>\n", html.EscapeString(section.Heading))
		for _, paragraph := range section.Paragraphs {
			fmt.Fprintf(&b, "<p>%s</p>\n", html.EscapeString(paragraph))
		}
	}
	b.WriteString("</body></html>\n")
	return []byte(b.String())
}
