package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// readGo returns the comments in a Go file and, unless the file is a test, the strings with several
// words. It omits strings with SQL, which contain PostgreSQL's words.
func readGo(name, content string) ([]text, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parsing: %w", err)
	}

	var texts []text
	for _, group := range file.Comments {
		var block strings.Builder
		for _, c := range group.List {
			if !strings.HasPrefix(c.Text, "//nolint") && !strings.HasPrefix(c.Text, "//go:") {
				block.WriteString(strings.TrimPrefix(strings.TrimPrefix(c.Text, "//"), " ") + "\n")
			}
		}
		texts = append(texts, text{comment, name, set.Position(group.Pos()).Line, block.String()})
	}
	if strings.HasSuffix(name, "_test.go") {
		return texts, nil
	}

	ast.Inspect(file, func(n ast.Node) bool {
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		value, err := strconv.Unquote(literal.Value)
		if err == nil && strings.Contains(value, " ") && !sql.MatchString(value) {
			texts = append(texts, text{message, name, set.Position(literal.Pos()).Line, value})
		}
		return true
	})
	return texts, nil
}

// sql matches the beginning of an SQL statement.
var sql = regexp.MustCompile(`^\s*(?:--[^\n]*\n\s*)*(?:SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|ALTER|DROP|GRANT|SET|FROM|WHERE|AND|ORDER|JOIN)\b`)

// lineComment matches a block of comments in a script.
var (
	lineComment = regexp.MustCompile(`(?m)(?:^|[ \t])//[^\n]*(?:\n[ \t]*//[^\n]*)*|(?s:/\*.*?\*/)`)
	// scriptString matches a string of several words, or a text between two tags.
	scriptString = regexp.MustCompile("\"[^\"\n]* [^\"\n]*\"|'[^'\n]* [^'\n]*'|`[^`]* [^`]*`|>[^<>{}=;]* [^<>{}=;]*<")
)

// readScript returns the comments in a TypeScript or JavaScript file and, unless the file is a
// test, the strings.
func readScript(name, content string) []text {
	texts := readComments(name, content, lineComment)
	if strings.Contains(name, ".test.") || strings.HasPrefix(name, "scripts/") {
		return texts
	}
	code := lineComment.ReplaceAllStringFunc(content, func(c string) string { return strings.Repeat("\n", strings.Count(c, "\n")) })
	for _, at := range scriptString.FindAllStringIndex(code, -1) {
		value := strings.Trim(code[at[0]:at[1]], "\"'`<>")
		texts = append(texts, text{ui, name, 1 + strings.Count(code[:at[0]], "\n"), value})
	}
	return texts
}
