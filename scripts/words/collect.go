package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// text is a piece of English text in the repository.
type text struct {
	kind    kind
	file    string
	line    int // number of the text's first line in the file
	content string
}

// kind is the kind of a text, which depends on its readers.
type kind string

const (
	document kind = "document"
	message  kind = "message"          // error or log message of a program
	ui       kind = "interface string" // string in the dashboard, the widget or another page
	comment  kind = "comment"
)

// excluded matches files that are generated, that contain data, or that others have written.
var excluded = regexp.MustCompile(`(^|/)(third_party|dist|testdata|node_modules|shop)/|\.pb\.go$|_generated\.|` +
	`^docs/parley\.postman_collection\.json$|^sdk/.*/types\.(ts|py)$|^scripts/words/|^workers/internal/(llm/offline|analysis|voice/sentence)/`)

// collect returns the texts in the files that git tracks below root, in the order of the files'
// names.
func collect(root string) ([]text, error) {
	list := exec.Command("git", "-C", root, "ls-files", "-z") //nolint:noctx // git ls-files needs no timeout
	names, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("listing files: %w", err)
	}

	var texts []text
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if excluded.MatchString(name) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) || bytes.IndexByte(content, 0) >= 0 {
			continue // the file is deleted but the deletion is not committed, or the file is binary
		}
		if err != nil {
			return nil, fmt.Errorf("reading a file: %w", err)
		}
		of, err := read(name, string(content))
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		texts = append(texts, of...)
	}
	return texts, nil
}

// read returns the texts in a file. The name of the file determines its language.
func read(name, content string) ([]text, error) {
	switch base := path.Base(name); path.Ext(name) {
	case ".go":
		return readGo(name, content)
	case ".md":
		return readMarkdown(name, content), nil
	case ".ts", ".tsx", ".mjs", ".js":
		return readScript(name, content), nil
	case ".html", ".tmpl", ".txt":
		if strings.HasPrefix(name, "ingress/web/") {
			return []text{{ui, name, 1, content}}, nil
		}
	case ".css":
		return readComments(name, content, cssComment), nil
	case ".sql":
		return append(readComments(name, content, sqlComment), readStrings(name, content, sqlComment, sqlMessage)...), nil
	case ".sh", ".yaml", ".yml", ".py", ".toml", ".conf", ".cfg":
		if strings.HasSuffix(name, "openapi/openapi.yaml") {
			return []text{{document, name, 1, content}}, nil
		}
		return readScripts(name, content), nil
	default:
		if base == "Makefile" || base == "Dockerfile" || base == "setup" || strings.HasPrefix(name, ".ci/") {
			return readScripts(name, content), nil
		}
	}
	return nil, nil
}

// The patterns of blocks of comments in the languages other than Go. Comments on consecutive lines
// are one block.
var (
	cssComment  = regexp.MustCompile(`(?s)/\*.*?\*/`)
	sqlComment  = regexp.MustCompile(`(?m)(?:^|[ \t])--[^\n]*(?:\n[ \t]*--[^\n]*)*`)
	hashComment = regexp.MustCompile(`(?m)(?:^|[ \t])#[^\n]*(?:\n[ \t]*#[^\n]*)*`)
)

// readComments returns each match of a pattern as a comment.
func readComments(name, content string, pattern *regexp.Regexp) []text {
	var texts []text
	for _, at := range pattern.FindAllStringIndex(content, -1) {
		texts = append(texts, text{comment, name, 1 + strings.Count(content[:at[0]], "\n"), content[at[0]:at[1]]})
	}
	return texts
}

var (
	// sqlMessage matches a message that a function raises.
	sqlMessage = regexp.MustCompile(`RAISE (?:EXCEPTION|WARNING|NOTICE) '[^']*'`)
	// hashString matches a string of several words. A string of three quotes may have several
	// lines.
	hashString = regexp.MustCompile(`(?s:"{3}.*?"{3})|"[^"\n]* [^"\n]*"|'[^'\n]* [^'\n]*'`)
)

// readScripts returns the comments in a file whose comments begin with #, and, unless the file is a
// test, the strings.
func readScripts(name, content string) []text {
	texts := readComments(name, content, hashComment)
	if strings.HasPrefix(path.Base(name), "test_") || strings.HasPrefix(name, "scripts/clients/") {
		return texts
	}
	return append(texts, readStrings(name, content, hashComment, hashString)...)
}

// readStrings returns each match of a pattern outside of comments as a message. The comments are
// blanked, so that the line numbers stay correct.
func readStrings(name, content string, comments, pattern *regexp.Regexp) []text {
	content = comments.ReplaceAllStringFunc(content, func(c string) string { return strings.Repeat("\n", strings.Count(c, "\n")) })
	var texts []text
	for _, at := range pattern.FindAllStringIndex(content, -1) {
		texts = append(texts, text{message, name, 1 + strings.Count(content[:at[0]], "\n"), strings.Trim(content[at[0]:at[1]], `"'`)})
	}
	return texts
}

// fence and inline match the code in a Markdown document.
var (
	fence  = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	inline = regexp.MustCompile("`[^`\n]+`")
)

// readMarkdown returns the text of a document without its code.
func readMarkdown(name, content string) []text {
	blank := func(code string) string { return strings.Repeat("\n", strings.Count(code, "\n")) }
	content = fence.ReplaceAllStringFunc(content, blank)
	return []text{{document, name, 1, inline.ReplaceAllString(content, "`code`")}}
}
