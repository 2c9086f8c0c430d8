package mcp

import (
	"regexp"

	"parley/shared/truncate"
	"parley/workers/internal/tool/redact"
)

// property matches the property names that model providers accept. A provider rejects the whole
// request if it contains any other name.
var property = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// maxParts is the maximum number of parts of a schema that are examined. A schema with more parts
// would also exceed the size limit.
const maxParts = maxSchema

// cleaner sanitizes all parts of a tool's definition, because all parts reach the model. It is used
// for one tool.
type cleaner struct {
	redactor *redact.Redactor
	// seen is the number of parts that were examined.
	seen  int
	unfit bool // the tool cannot be offered to models
}

// text removes secrets and invisible characters. It keeps white space, which may have a meaning for
// the server.
func (c *cleaner) text(text string) string { return c.redactor.Text(visible(text)) }

// prose sanitizes a description and truncates it.
func (c *cleaner) prose(text string) string {
	return truncate.Runes(c.redactor.Text(clean(text)), maxDescription)
}

// schema sanitizes a schema, or a list of schemas.
func (c *cleaner) schema(value any) any {
	keywords, ok := value.(map[string]any)
	if list, isList := value.([]any); isList {
		return c.list(list, c.schema)
	}
	// A schema may also be a boolean.
	if !ok || !c.more() {
		return c.data(value)
	}

	// The keyword decides how its value is sanitized: names of properties must not change, and data
	// is not a schema.
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
		// The values of the following keywords are data, even if they look like schemas.
		case "enum", "const", "default", "examples", "example":
			out[keyword] = c.data(inner)
		case "title", "description":
			out[keyword] = inner
			if isText {
				out[keyword] = c.prose(text)
			} else {
				out[keyword] = c.data(inner)
			}
		// The other keywords contain schemas or plain values. The method schema passes plain values
		// on to the method data.
		default:
			out[c.text(keyword)] = c.schema(inner)
		}
	}
	return out
}

// named sanitizes an object whose values are schemas. The function name sanitizes the keys of the
// object.
func (c *cleaner) named(schemas map[string]any, name func(string) string) any {
	out := make(map[string]any, len(schemas))
	for key, inner := range schemas {
		out[name(key)] = c.schema(inner)
	}
	return out
}

// property returns a property's name unchanged, because the server would not recognize a changed
// name. If model providers do not accept the name, the tool becomes unfit.
func (c *cleaner) property(name string) string {
	if !property.MatchString(name) || c.redactor.Text(name) != name {
		c.unfit = true
	}
	return name
}

// list returns the results of a function for the elements of a list. It stops when the tool has
// become unfit.
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

// data sanitizes a value that is not a schema.
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
		return c.redactor.Number(v)
	}
}

// more counts one part of the schema. It returns false if maxParts is exceeded.
func (c *cleaner) more() bool {
	c.seen++
	c.unfit = c.unfit || c.seen > maxParts
	return !c.unfit
}
