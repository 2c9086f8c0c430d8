package offline

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"parley/workers/internal/llm"
)

// Patterns of code blocks and of the names of files in a message.
var (
	codeBlock = regexp.MustCompile("(?s)```([^\\s`]*)[^\n`]*\n(.*?)```")
	// Languages of the code blocks that are executed. Blocks without a language are executed, too.
	inThisLanguage = setFor("python python3 py py3 ipython")

	saidFiles    = regexp.MustCompile(`(?i)(?:^|[\s,;({])["']?files?["']?\s*[:=]\s*(\[[^\]\n]*\]|[^\n]+)`)
	betweenFiles = regexp.MustCompile(`\s*(?:,\s*and\s|,|;|\sand\s)\s*`)
	aDocument    = regexp.MustCompile(`\bdoc_[0-9a-z]{26}\b`)
	aFile        = regexp.MustCompile("^(?:[\"'`“]([^\"'`”]+)[\"'`”]|(.*?\\.\\w{1,8})[.;:!?)}]*(?:\\s|$)|(\\S+?)[.;:!?)}]*$)")
)

// blocks contains the code blocks of a message.
type blocks struct {
	any    bool
	code   string   // all Python blocks, concatenated
	others []string // languages of the other blocks, without duplicates
}

// readBlocks collects the code blocks of a message.
func readBlocks(message string) (b blocks) {
	for _, m := range codeBlock.FindAllStringSubmatch(message, -1) {
		b.any = true
		// A language may be written in braces, such as {python}.
		mark := strings.Trim(m[1], "{}.,")
		switch {
		case mark != "" && !inThisLanguage[strings.ToLower(mark)]:
			if mark = truncateWords(mark, 30); !slices.Contains(b.others, mark) {
				b.others = append(b.others, mark)
			}
		case b.code != "" && !strings.HasSuffix(b.code, "\n"):
			b.code += "\n" + m[2]
		default:
			b.code += m[2]
		}
	}
	return b
}

// notRun returns a sentence that names the code blocks that are not executed, or "" if there are
// none.
func (b blocks) notRun() string {
	if len(b.others) == 0 {
		return ""
	}
	marks := strings.Join(b.others, " and ")
	return fmt.Sprintf("What is marked as %s was not run: I run Python alone. Mark it as python if it is that.", marks)
}

// filesFor returns the names of the files that a program may read, if the tool accepts files. The
// message must name them outside of its code blocks, after "files:" or by the id of a document.
func filesFor(t llm.ToolSpec, message string) (files []string) {
	if _, takes := schemaFor(t).Properties["files"]; !takes {
		return nil
	}
	// Code often contains words such as "file:", so the blocks are removed first.
	message = codeBlock.ReplaceAllString(message, "\n")
	for _, m := range saidFiles.FindAllStringSubmatch(message, -1) {
		files = append(files, fileNames(m[1])...)
	}
	return distinct(append(files, aDocument.FindAllString(message, -1)...))
}

// fileNames parses a list of file names. The list may have any of the forms "a.csv, b.csv",
// "`a.csv` and b.csv." and "["a.csv"]". Parsing stops at a text that cannot be a file name.
func fileNames(text string) (names []string) {
	if json.Unmarshal([]byte(text), &names) == nil {
		return names
	}
	names = nil
	for _, part := range betweenFiles.Split(strings.TrimSpace(strings.Trim(text, "[] ")), -1) {
		m := aFile.FindStringSubmatch(strings.TrimSpace(part))
		if m == nil {
			return names
		}
		names = append(names, m[1]+m[2]+m[3])
	}
	return names
}

// distinct removes repeated elements. It changes list in place.
func distinct(list []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(one string) bool {
		again := seen[one]
		seen[one] = true
		return again
	})
}
