package agentloop

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"parley/shared/domain"
	"parley/shared/schema"
	"parley/workers/internal/llm"
)

// Contract is the schema that a run's answer must match.
type Contract struct {
	Raw    json.RawMessage
	Schema *schema.Schema // compiled from Raw
}

// NewContract compiles the schema of an answer.
func NewContract(raw json.RawMessage) (*Contract, error) {
	compiled, err := schema.CompileOutput(raw)
	if err != nil {
		return nil, wrap("reading output schema", err)
	}
	return &Contract{Raw: raw, Schema: compiled}, nil
}

// Instructions for an answer that must match a schema.
const (
	contractRule = "Your final answer is a single JSON value that matches the schema you were given: no other text, no Markdown."
	envelopeRule = "Write the answer as {\"data\": <the JSON value>, \"citations\": [{\"path\": <JSON Pointer into data>, \"source\": <id>}]}. " +
		"Cite a source that a tool gave with an id for each value that you took from it. The value must stand in that source as you write it; " +
		"any other citation is removed. Write no citations inside the values."
	repairRule = "This answer does not match the schema. Write the whole answer again, with these problems corrected:\n"
)

// envelope is the answer of a run with tools: the data, and the sources of its values.
type envelope struct {
	Data      json.RawMessage `json:"data"`
	Citations []valueCitation `json:"citations"`
}

// valueCitation says that a value of the data stands in a source.
type valueCitation struct {
	Path   string `json:"path"`
	Source int    `json:"source"`
}

// requestSchema returns the schema for the provider. If the run has tools, or the data need not be
// an object, the data is wrapped in an envelope, because providers require an object.
func (c *Contract) requestSchema(cites bool) json.RawMessage {
	if !cites && c.isObject() {
		return c.Raw
	}

	properties := `"data":` + string(moveReferences(c.Raw, "#/properties/data"))
	if cites {
		properties += `,"citations":{"type":"array","items":{"type":"object","additionalProperties":false,` +
			`"properties":{"path":{"type":"string"},"source":{"type":"integer"}},"required":["path","source"]}}`
	}
	return json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{` + properties + `},"required":["data"]}`)
}

// isObject reports whether the schema's root has the type object.
func (c *Contract) isObject() bool {
	var root struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(c.Raw, &root) == nil && root.Type == "object"
}

// moveReferences returns a schema whose references within the document begin with root.
func moveReferences(raw json.RawMessage, root string) json.RawMessage {
	var doc any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&doc) != nil {
		return raw
	}
	var move func(v any)
	move = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok && (ref == "#" || strings.HasPrefix(ref, "#/")) {
				v["$ref"] = root + ref[1:]
			}
			for _, inner := range v {
				move(inner)
			}
		case []any:
			for _, inner := range v {
				move(inner)
			}
		}
	}
	move(doc)
	moved, err := json.Marshal(doc)
	if err != nil {
		return raw
	}
	return moved
}

// read returns the data of an answer and its citations, or the mismatches. An answer without the
// envelope is accepted, because not every provider enforces the schema.
func (c *Contract) read(text string) (data json.RawMessage, cited []valueCitation, wrong []schema.Mismatch) {
	answer := []byte(unfenced(text))
	var e envelope
	d := json.NewDecoder(bytes.NewReader(answer))
	d.DisallowUnknownFields()
	if d.Decode(&e) == nil && len(e.Data) > 0 {
		if wrong = c.Schema.Mismatches(e.Data); len(wrong) == 0 {
			return compact(e.Data), e.Citations, nil
		}
	}

	// The schema itself may describe an object with the field data.
	bare := c.Schema.Mismatches(answer)
	if len(bare) == 0 {
		return compact(answer), nil, nil
	}
	if len(wrong) == 0 {
		wrong = bare
	}
	return nil, nil, wrong
}

// unfenced removes white space and a Markdown code fence around a text.
func unfenced(text string) string {
	text = strings.TrimSpace(text)
	inner, fenced := strings.CutPrefix(text, "```")
	if !fenced {
		return text
	}
	inner, ended := strings.CutSuffix(strings.TrimPrefix(inner, "json"), "```")
	if !ended {
		return text
	}
	return strings.TrimSpace(inner)
}

// compact removes the spaces between the tokens of valid JSON.
func compact(raw []byte) json.RawMessage {
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return raw
	}
	return out.Bytes()
}

// finishData converts the last answer to the run's output if it matches the contract. If it does
// not, the run is asked once more: again is true, and the prompt contains the problems.
func (r *run) finishData(t *TurnStep, stop llm.StopReason) (out Output, again bool, err error) {
	data, cited, wrong := r.in.Contract.read(t.Text)
	if len(wrong) > 0 {
		if r.repaired {
			r.countTurn(t)
			return r.out, false, outputInvalid(wrong)
		}
		r.repair(t, wrong)
		return Output{}, true, nil
	}

	// The rejected answer and the request to correct it are not part of the session's history.
	if r.repaired {
		r.messages = append(r.messages[:r.rejected], r.messages[r.rejected+2:]...)
	}
	t.Text = string(data)
	t.Citations, t.CitationsRemoved = r.passages.valueCitations(t.Text, cited)
	r.out.Data, r.valid = data, true
	r.show(t.Text)
	r.send(Event{Type: EventOutput, Step: r.seq + 1, Data: data})
	out, err = r.finish(t, stop)
	return out, false, err
}

// repair adds a rejected answer and its problems to the prompt.
func (r *run) repair(t *TurnStep, wrong []schema.Mismatch) {
	r.countTurn(t)
	r.repaired, r.rejected = true, len(r.messages)
	var problems strings.Builder
	for _, m := range wrong {
		_, _ = problems.WriteString("- " + m.Path + ": " + m.Message + "\n") // never fails
	}
	r.messages = append(r.messages,
		llm.Message{Role: llm.RoleAssistant, Text: t.Text, Thinking: t.Thinking},
		llm.Message{Role: llm.RoleUser, Text: repairRule + problems.String()})
}

// outputInvalid returns the error of a run whose answer does not match its schema.
func outputInvalid(wrong []schema.Mismatch) *Error {
	e := limitError(CodeOutputInvalid, "The answer does not match the output schema.")
	for _, m := range wrong {
		e.Mismatches = append(e.Mismatches, domain.OutputMismatch(m))
	}
	return e
}

// valueCitations returns the valid citations of values in data, a compact JSON text, in the order of
// the values. A citation is valid if its path is a string or number that stands in its source.
func (p passages) valueCitations(data string, cited []valueCitation) (valid []domain.Citation, removed int) {
	values := scalars(data)
	removed = len(cited)
	runes := runeCounter{text: data}
	for _, v := range values {
		for _, c := range cited {
			if c.Path != v.path || len(valid) == maxCitations {
				continue
			}
			quote, _, ok := p.check(c.Source, []string{v.text})
			if !ok || quote == "" {
				continue
			}
			removed--
			one := p[c.Source].source
			one.CitedText, one.Path = quote, v.path
			one.StartIndex, one.EndIndex = runes.at(v.from), runes.at(v.to)
			valid = append(valid, one)
		}
	}
	return valid, removed
}

// scalar is a string or number in a JSON text.
type scalar struct {
	path     string // JSON Pointer
	text     string // the string's characters, or the number as written
	from, to int    // offsets in bytes of the value in the JSON text
}

// scalars returns the strings and numbers of a JSON text, in order.
func scalars(data string) (found []scalar) {
	d := jsontext.NewDecoder(strings.NewReader(data))
	for {
		token, err := d.ReadToken()
		if err != nil { // the end
			return found
		}
		kind, to := token.Kind(), int(d.InputOffset())
		if kind != '"' && kind != '0' || isKey(d) {
			continue
		}
		text := token.String()
		from := to - len(text)
		if kind == '"' {
			from = to - quotedLength(data[:to])
		}
		found = append(found, scalar{string(d.StackPointer()), text, from, to})
	}
}

// isKey reports whether the token that was just read is the name of an object's member.
func isKey(d *jsontext.Decoder) bool {
	kind, length := d.StackIndex(d.StackDepth())
	return kind == '{' && length%2 == 1
}

// quotedLength returns the length of the JSON string at the end of a text.
func quotedLength(text string) int {
	for at := len(text) - 2; at >= 0; at-- {
		if text[at] != '"' {
			continue
		}
		// A quotation mark after an odd number of backslashes belongs to the string.
		slashes := 0
		for slashes < at && text[at-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return len(text) - at
		}
	}
	return len(text)
}
