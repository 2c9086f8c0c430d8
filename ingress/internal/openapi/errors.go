package openapi

import "strings"

// ErrorCode describes an error code: its HTTP status, its title, its meaning in Markdown, and
// whether a retry may succeed. It comes from the schema ErrorCode, which has an entry for each code
// of package apierr.
type ErrorCode struct {
	Code, Title, Meaning string
	Status               int
	Retryable            bool
}

// DistinctTitle returns the title, or "" if the title only repeats the words of the code or the
// beginning of the meaning. Pages thus do not show the same words twice.
func (c ErrorCode) DistinctTitle() string {
	if strings.EqualFold(strings.ReplaceAll(c.Code, "_", " "), c.Title) || strings.HasPrefix(c.Meaning, c.Title) {
		return ""
	}
	return c.Title
}

// ErrorCodes lists the error codes in the order of the document, which is the order of their
// statuses.
func ErrorCodes() []ErrorCode {
	var out []ErrorCode
	for _, code := range schemas().At("ErrorCode").Objects("oneOf") {
		status, _ := code.Get("x-status").(int)
		out = append(out, ErrorCode{
			Code: code.Text("const"), Title: code.Text("title"), Meaning: code.Text("description"),
			Status: status, Retryable: code.Flag("x-retryable"),
		})
	}
	return out
}

// schemas returns the named schemas of the document. They are in the order of the document.
func schemas() object { return read().root.At("components", "schemas") }

// Word is a value of an enumeration with its meaning in Markdown. Name is the value as the API
// sends it.
type Word struct{ Name, Meaning string }

// Words returns the values of a named schema, such as "RunErrorCode". The schema must describe each
// of its values. The result is nil for a schema that is no enumeration.
func Words(schema string) []Word {
	var out []Word
	for _, value := range schemas().At(schema).Objects("oneOf") {
		out = append(out, Word{value.Text("const"), value.Text("description")})
	}
	return out
}

// ExampleFor returns the example of a shared response, such as "NotFound", as indented JSON text.
// It returns "" if there is none.
func ExampleFor(response string) string {
	for _, content := range read().root.At("components", "responses", response, "content").Members() {
		return indented(content.Get("example"))
	}
	return ""
}
