package markup

import (
	"bytes"
	"context"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/util"

	"parley/workers/internal/document"
	"parley/workers/internal/parse"
	"parley/workers/internal/parse/charset"
)

// nested matches a line that begins with more than 50 levels of quotes or lists. Ordinary texts
// contain no such line, and parsing such a line would be very slow.
var nested = regexp.MustCompile(`(?m)^(?:[ \t]*(?:>|[-+*]|[0-9]{1,9}[.)])[ \t]?){51}`)

// Markdown reads GitHub Flavored Markdown with definition lists and footnotes. A metadata block at
// the beginning may contain the title and the language. Without a title, the first heading of level
// 1 is the title.
//
// Markdown fails with the code too_large if the text is nested too deeply, or if its tables have
// too many cells. Conversion itself does not check ctx, but takes bounded time.
func Markdown(ctx context.Context, in parse.Input, out *parse.Writer) (document.Info, error) {
	text, _ := charset.Decode(in.Content, in.Charset)
	text = strings.ReplaceAll(parse.Lines(text), "\x00", "")
	text, info := frontMatter(text)
	text, err := bounded(text)
	if err != nil {
		return document.Info{}, err
	}
	extensions := []goldmark.Extender{extension.GFM, extension.DefinitionList}
	if footnoted(text) {
		extensions = append(extensions, extension.Footnote)
	}

	var page bytes.Buffer
	md := goldmark.New(
		goldmark.WithExtensions(extensions...),
		goldmark.WithParserOptions(parser.WithInlineParsers(util.Prioritized(&bounds{}, 1))),
		goldmark.WithRendererOptions(html.WithUnsafe()), // embedded HTML is read as HTML
	)

	if err := md.Convert([]byte(text), &page); err != nil {
		return document.Info{}, err
	}

	if err := ctx.Err(); err != nil {
		return document.Info{}, err
	}

	// The encoding is stated, because detection could choose another encoding for a short text.
	content := append([]byte("<!DOCTYPE html><meta charset=utf-8><body>"), page.Bytes()...)
	found, err := XHTML(content, out)
	if info.Title == "" {
		info.Title = found.Title
	}
	return info, err
}

// frontMatter removes the metadata block from the beginning of a text. It returns the remaining
// text, and the title and language in the block. It supports the fences of YAML and TOML.
//
// A block must end within 500 lines. Otherwise the text is returned unchanged, because the first
// line is then a horizontal line.
func frontMatter(text string) (string, document.Info) {
	var info document.Info
	for _, fence := range []string{"---\n", "+++\n"} {
		if !strings.HasPrefix(text, fence) {
			continue
		}
		lines := strings.SplitAfter(text[4:], "\n")
		// The separators of YAML and TOML are treated alike.
		for i, l := range lines[:min(len(lines), 500)] {
			name, value, _ := strings.Cut(strings.ReplaceAll(l, " = ", ": "), ":")
			value = strings.Trim(strings.TrimSpace(value), `"'`)
			switch end := strings.TrimSpace(l); {
			case end == strings.TrimSpace(fence) || end == "..." && fence == "---\n":
				return strings.Join(lines[i+1:], ""), info
			case i == 0 && (end == "" || value == "" && name == l): // not metadata, but ordinary text after a horizontal line
				return text, document.Info{}
			case name == "title":
				info.Title = value
			case name == "lang" || name == "language":
				info.Language = value
			}
		}
	}
	return text, document.Info{}
}

// tooDeep reports whether a paragraph of a text has more than 200 levels of opening brackets. The
// parser compares brackets with each other, so deep nesting is slow.
func tooDeep(text string) bool {
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '[':
			if depth++; depth > 200 {
				return true
			}
		case ']':
			depth = max(depth-1, 0)
		case '\n':
			if i > 0 && text[i-1] == '\n' {
				depth = 0
			}
		}
	}
	return false
}
