package openapi

// ErrorCode is a code of the contract: its status and title, whether the same request may succeed later,
// and what it means, in Markdown.
type ErrorCode struct {
	Code, Title, Meaning string
	Status               int
	Retryable            bool
}

// ErrorCodes lists the codes of problems by status.
func ErrorCodes() []ErrorCode {
	var out []ErrorCode
	for _, code := range schemas().at("ErrorCode").objects("oneOf") {
		status, _ := code.get("x-status").(uint64)
		out = append(out, ErrorCode{
			Code: code.text("const"), Title: code.text("title"), Meaning: code.text("description"),
			Status: int(status), Retryable: code.flag("x-retryable"),
		})
	}
	return out
}

func schemas() object { return read().root.at("components", "schemas") }

// Word is one value of a closed list, and what it means, in Markdown.
type Word struct{ Name, Meaning string }

// Words lists the values of a schema that names each with its meaning, such as "RunErrorCode".
func Words(schema string) []Word {
	var out []Word
	for _, value := range schemas().at(schema).objects("oneOf") {
		out = append(out, Word{value.text("const"), value.text("description")})
	}
	return out
}

// ExampleOf gives the example of a shared response, such as "NotFound", as indented JSON.
func ExampleOf(response string) string {
	var text string
	read().root.at("components", "responses", response, "content").each(func(_ string, content object) {
		text = indented(content.get("example"))
	})
	return text
}
