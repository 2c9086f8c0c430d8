package retrieval

import (
	"compress/gzip"
	"errors"
	"fmt"
	"hash/fnv"
	"html"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Document is a manual page.
type Document struct {
	Name     string // "ls(1)"
	Sections []Section
}

// What a section has to be for questions to be asked about it, in bytes, and a page to be taken.
const (
	shortest = 400
	longest  = 6000
	biggest  = 200_000
	kindred  = 20 // pages of one program's many commands
)

// ErrFewPages says that this machine has not enough documentation.
var ErrFewPages = errors.New("there are too few manual pages on this machine (container images of Debian leave them out)")

// Gather takes pages of a directory of manual pages, in the order of their hashes, until so many of their sections can be asked about.
func Gather(man fs.FS, sections int) ([]Document, error) {
	var paths []string
	for _, folder := range []string{"man1", "man2", "man3", "man4", "man5", "man7", "man8"} {
		entries, err := fs.ReadDir(man, folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("looking for manual pages: %w", err)
		}
		for _, entry := range entries {
			if entry.Type().IsRegular() && strings.HasSuffix(entry.Name(), ".gz") { // links are other names of pages
				paths = append(paths, path.Join(folder, entry.Name()))
			}
		}
	}
	slices.SortFunc(paths, func(a, b string) int { return compare(hash(a), hash(b), a, b) })
	var all []Document
	seen, families, found := map[string]bool{}, map[string]int{}, 0
	for _, name := range paths {
		page, err := read(man, name)
		if err != nil {
			return nil, err
		}
		title, parts := readPage(page)
		n := fresh(parts, seen)
		family, _, _ := strings.Cut(strings.NewReplacer("_", "-", "(", "-", ".", "-").Replace(title), "-")
		if title == "" || seen[title] || n == 0 || families[family] == kindred {
			continue
		}
		seen[title] = true
		families[family]++
		all = append(all, Document{Name: title, Sections: parts})
		if found += n; found >= sections {
			return all, nil
		}
	}
	return nil, fmt.Errorf("%w: %d sections, not %d", ErrFewPages, found, sections)
}

func compare(a, b uint64, first, second string) int {
	if a != b {
		if a < b {
			return -1
		}
		return 1
	}
	return strings.Compare(first, second)
}

func hash(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

func read(man fs.FS, name string) (page string, err error) {
	file, err := man.Open(name)
	if err != nil {
		return "", fmt.Errorf("opening manual page: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		return "", fmt.Errorf("unpacking %s: %w", name, err)
	}
	raw, err := io.ReadAll(io.LimitReader(unpacked, biggest+1))
	if err != nil {
		return "", fmt.Errorf("unpacking %s: %w", name, err)
	}
	if len(raw) > biggest || !utf8.Valid(raw) {
		return "", nil
	}
	return string(raw), nil
}

// fresh counts the sections that can be asked about and that no page before has word for word.
func fresh(sections []Section, seen map[string]bool) int {
	n := 0
	for _, section := range sections {
		if text := section.Text(); section.askable() && !seen[text] {
			seen[text] = true
			n++
		}
	}
	return n
}

// formal sections are much alike on all pages.
var formal = []string{
	"NAME", "SYNOPSIS", "SEE ALSO", "AUTHOR", "AUTHORS", "COPYRIGHT", "REPORTING BUGS", "COLOPHON", "HISTORY", "LICENSE",
	"AVAILABILITY",
}

func (s Section) askable() bool {
	n := len(s.Text())
	return n >= shortest && n <= longest && !slices.Contains(formal, strings.ToUpper(s.Heading))
}

// HTML is the document as it is uploaded.
func (d Document) HTML() []byte {
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
