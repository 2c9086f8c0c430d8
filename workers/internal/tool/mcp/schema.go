package mcp

import (
	"regexp"

	"parley/workers/internal/tool"
	"parley/workers/internal/tool/redact"
)

// property is a name that model providers take for a property: with any other they refuse the whole request.
var property = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// maxParts bounds what of a schema is looked at; one with more is too long to be shown.
const maxParts = maxSchema

// cleaner makes what a server says of a tool fit to be shown to a model: every text in it, for all of it is read.
type cleaner struct {
	hide  *redact.Redactor
	seen  int
	unfit bool // the tool cannot be shown
}

// text gives a text that means something to the server: its space stays.
func (c *cleaner) text(text string) string { return c.hide.Text(visible(text)) }

// prose gives a text for readers.
func (c *cleaner) prose(text string) string {
	return tool.CutRunes(c.hide.Text(clean(text)), maxDescription)
}

// schema gives a schema, or a list of them, with clean texts.
func (c *cleaner) schema(value any) any {
	keywords, ok := value.(map[string]any)
	if list, isList := value.([]any); isList {
		return c.list(list, c.schema)
	}
	if !ok || !c.more() {
		return c.data(value)
	}
	out := make(map[string]any, len(keywords))
	for keyword, inner := range keywords {
		named, isNamed := inner.(map[string]any)
		text, isText := inner.(string)
		switch keyword {
		case "properties":
			if isNamed {
				out[keyword] = c.named(named, c.property)
			}
		case "patternProperties", "$defs", "definitions", "dependentSchemas":
			if isNamed {
				out[keyword] = c.named(named, c.text)
			}
		case "enum", "const", "default", "examples", "example":
			out[keyword] = c.data(inner)
		case "title", "description":
			out[keyword] = inner
			if isText {
				out[keyword] = c.prose(text)
			} else {
				out[keyword] = c.data(inner)
			}
		default:
			out[c.text(keyword)] = c.schema(inner)
		}
	}
	return out
}

// named gives schemas that have names of their own.
func (c *cleaner) named(schemas map[string]any, name func(string) string) any {
	out := make(map[string]any, len(schemas))
	for key, inner := range schemas {
		out[name(key)] = c.schema(inner)
	}
	return out
}

// property gives the name of a property as it is: under another the server would not know it.
func (c *cleaner) property(name string) string {
	if !property.MatchString(name) || c.hide.Text(name) != name {
		c.unfit = true
	}
	return name
}

func (c *cleaner) list(list []any, each func(any) any) any {
	out := make([]any, 0, min(len(list), maxParts))
	for _, inner := range list {
		if c.unfit {
			break
		}
		out = append(out, each(inner))
	}
	return out
}

// data gives what is no schema.
func (c *cleaner) data(value any) any {
	if !c.more() {
		return nil
	}
	switch v := value.(type) {
	case string:
		return c.text(v)
	case []any:
		return c.list(v, c.data)
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, inner := range v {
			out[c.text(key)] = c.data(inner)
		}
		return out
	default:
		return c.hide.Number(v)
	}
}

// more reports whether there is not too much yet.
func (c *cleaner) more() bool {
	c.seen++
	c.unfit = c.unfit || c.seen > maxParts
	return !c.unfit
}
