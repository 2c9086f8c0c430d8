package agentloop

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"parley/shared/domain"
	"parley/shared/schema"
	"parley/workers/internal/llm"
)

// Contract is the schema that a run's answer must match. It does not change after NewContract and
// is safe for concurrent use.
type Contract struct {
	Raw    json.RawMessage
	Schema *schema.Schema // compiled from Raw

	object bool // the schema requires an object as the root value
}

// NewContract compiles the schema of an answer. It fails if raw is not a schema that Parley
// supports.
func NewContract(raw json.RawMessage) (*Contract, error) {
	compiled, err := schema.CompileOutput(raw)
	if err != nil {
		return nil, wrap("reading output schema", err)
	}

	// If the schema allows several types, or any type, the data need not be an object.
	var root struct {
		Type any `json:"type"`
	}
	c := &Contract{Raw: raw, Schema: compiled}
	c.object = json.Unmarshal(raw, &root) == nil && root.Type == "object"
	return c, nil
}

// These instructions ask the model for an answer that matches a schema.
const (
	contractRule = "Your final answer is a single JSON value that matches the schema you were given: no other text, no Markdown."
	envelopeRule = "Write the answer as {\"data\": <the JSON value>, \"citations\": " +
		"[{\"path\": <JSON Pointer into data>, \"source\": <id>}]}. " +
		"For each value that you took from a source with an id (a tool's result or an attached file), cite that source. " +
		"The value must appear in that source exactly as you write it; any other citation is removed. Write no citations inside the values."
	repairRule = "This answer does not match the schema. Write the whole answer again, with these problems corrected:\n"
)

// envelope is the JSON object that a model with sources returns as its answer. It contains the
// data, and the sources of the data's values.
type envelope struct {
	Data      json.RawMessage `json:"data"`
	Citations []valueCitation `json:"citations"`
}

// valueCitation states that a source contains a certain value of the data.
type valueCitation struct {
	Path   string `json:"path"`
	Source int    `json:"source"`
}

// enveloped reports whether the model writes the data inside an envelope. The envelope is needed if
// the run has sources, or if the data need not be an object, because providers accept only objects.
func (c *Contract) enveloped(cites bool) bool { return cites || !c.object }

// requestSchema returns the schema that the provider receives: the schema of the data, or of the
// envelope.
func (c *Contract) requestSchema(cites bool) json.RawMessage {
	if !c.enveloped(cites) {
		return c.Raw
	}

	properties := `"data":` + string(schema.Embed(c.Raw, "#/properties/data"))
	if cites {
		properties += `,"citations":{"type":"array","items":{"type":"object","additionalProperties":false,` +
			`"properties":{"path":{"type":"string"},"source":{"type":"integer"}},"required":["path","source"]}}`
	}
	return json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{` + properties + `},"required":["data"]}`)
}

// read returns the data of an answer and its citations, or the differences from the schema. It
// accepts an answer without the requested envelope, because not every provider enforces the schema.
func (c *Contract) read(text string, enveloped bool) (data json.RawMessage, cited []valueCitation, wrong []schema.Mismatch) {
	answer := []byte(unfenced(text))
	if enveloped {
		if e, err := readEnvelope(answer); err == nil && len(e.Data) > 0 {
			if wrong = c.Schema.Mismatches(e.Data); len(wrong) == 0 {
				return compact(e.Data), e.Citations, nil
			}
		}
	}

	// The schema itself may describe an object with a field "data", so first try the answer without
	// an envelope.
	bare := c.Schema.Mismatches(answer)
	if len(bare) == 0 {
		return compact(answer), nil, nil
	}
	if len(wrong) == 0 {
		wrong = bare
	}
	return nil, nil, wrong
}

// errNoEnvelope means that an answer does not have the form of an envelope.
var errNoEnvelope = errors.New("not an envelope")

// readEnvelope reads an envelope at the beginning of an answer, in a single pass.
func readEnvelope(answer []byte) (e envelope, err error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(answer))
	if open, err := d.ReadToken(); err != nil || open.Kind() != '{' {
		return e, errNoEnvelope
	}
	for d.PeekKind() == '"' {
		token, err := d.ReadToken()
		if err != nil {
			return e, errNoEnvelope
		}
		name := token.String()
		value, err := d.ReadValue()
		switch {
		case err != nil:
			return e, errNoEnvelope
		case name == "data":
			e.Data = bytes.Clone(value)
		case name != "citations" || json.Unmarshal(value, &e.Citations) != nil:
			return e, errNoEnvelope
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return e, errNoEnvelope
	}
	return e, nil
}

// unfenced removes the white space and the Markdown code fence around a text.
func unfenced(text string) string {
	text = strings.TrimSpace(text)

	// Some models write JSON in a code block even if they were asked not to.
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

// compact removes the white space between the tokens of valid JSON.
func compact(raw []byte) json.RawMessage {
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return raw
	}
	return out.Bytes()
}

// outputCutOff is the message of a run whose answer is not complete.
const outputCutOff = "The output limit cut off the answer before its JSON was complete. Raise maxOutputTokens or ask for less."

// finishData converts the last answer to the run's output if the answer matches the contract. If it
// does not, finishData asks the model once to correct it. In that case, again is true, and the
// prompt contains the problems. If the output limit cut off the answer, finishData returns an
// error, because a correction would reach the same limit. The rejected answer is not recorded, so a
// worker that takes over the run requests a new answer.
func (r *run) finishData(t *TurnStep, stop llm.StopReason) (out Output, again bool, err error) {
	data, cited, wrong := r.in.Contract.read(t.Text, r.in.Contract.enveloped(r.cites()))
	if len(wrong) > 0 {
		r.countTurn(t)
		if stop == llm.StopLength {
			return r.out, false, limitError(CodeModelTruncated, outputCutOff)
		}
		if r.repaired {
			return r.out, false, outputInvalid(wrong)
		}
		r.repair(t, wrong)
		return Output{}, true, nil
	}

	// Remove the rejected answer and the request to correct it from the session's history.
	if r.repaired {
		r.messages = append(r.messages[:r.rejected], r.messages[r.rejected+2:]...)
	}
	t.Text = string(data)
	t.Citations, t.CitationsRemoved = r.passages.valueCitations(t.Text, cited)
	r.out.Data, r.valid = data, true
	r.result += int64(len(data)) // the run object contains the data twice: as data and as text
	r.show(t.Text)
	r.send(Event{Type: EventOutput, Step: r.seq + 1, Data: data})
	out, err = r.finish(t, stop)
	return out, false, err
}

// repair adds a rejected answer and its problems to the prompt. It is called at most once in an
// attempt.
func (r *run) repair(t *TurnStep, wrong []schema.Mismatch) {
	r.repaired, r.rejected = true, len(r.messages)
	var problems strings.Builder
	for _, m := range wrong {
		_, _ = problems.WriteString("- " + cmp.Or(m.Path, "the whole answer") + ": " + m.Message + "\n") // never fails
	}

	// The rejected answer and its problems count towards the limit on bytes, like other texts that
	// the model and the tools write.
	r.bytes += int64(len(t.Text) + problems.Len())
	r.messages = append(r.messages,
		llm.Message{Role: llm.RoleAssistant, Text: t.Text, Thinking: t.Thinking},
		llm.Message{Role: llm.RoleUser, Text: repairRule + problems.String()})
}

// maxNamed is the maximum number of mismatches in the error message, for clients that show only the
// message.
const maxNamed = 3

// outputInvalid returns the error of a run whose answer does not match its schema. The message
// names at most maxNamed differences, and Mismatches contains all of them.
func outputInvalid(wrong []schema.Mismatch) *Error {
	var problems strings.Builder
	for i, m := range wrong {
		switch {
		case i == maxNamed:
			_, _ = problems.WriteString("; and more") // never fails
		case i < maxNamed:
			_, _ = problems.WriteString("; " + strings.TrimPrefix(m.Path+": "+m.Message, ": "))
		}
	}
	e := limitError(CodeOutputInvalid, "The answer does not match the output schema"+strings.Replace(problems.String(), ";", ":", 1)+".")
	for _, m := range wrong {
		e.Mismatches = append(e.Mismatches, domain.OutputMismatch(m))
	}
	return e
}

// These constants limit the citations of values: the number of sources that are checked for one
// value, and the number of lookups for all values. Each lookup reads a whole source.
const (
	maxValueSources = 8
	maxLookups      = 2 * maxCitations
)

// valueCitations returns the valid citations of values in data, in the order of the values. data
// must be compact JSON. A citation is valid if its path refers to a string or number that its
// source contains. Repeated citations are ignored. removed is the number of the other citations
// that are not returned.
func (p passages) valueCitations(data string, cited []valueCitation) (valid []domain.Citation, removed int) {
	// Count all citations except repeated ones as removed, and then subtract one for each valid
	// citation.
	sources := map[string][]int{} // numbers of the cited sources, by the path of the value
	for _, c := range cited {
		known := sources[c.Path]
		if slices.Contains(known, c.Source) {
			continue
		}
		if removed++; len(known) < maxValueSources {
			sources[c.Path] = append(known, c.Source)
		}
	}
	if removed == 0 {
		return nil, 0
	}

	lookups, runes := 0, runeCounter{text: data}
	for _, v := range scalars(data) {
		var from, to int
		if len(sources[v.path]) > 0 {
			from, to = runes.at(v.from), runes.at(v.to)
		}
		for _, number := range sources[v.path] {
			if lookups++; lookups > maxLookups || len(valid) == maxCitations || p[number] == nil {
				continue
			}
			words := p[number].value(v)
			if words == "" {
				continue
			}
			removed--
			one := p[number].source
			one.CitedText, one.Path, one.StartIndex, one.EndIndex = words, v.path, from, to
			valid = append(valid, one)
		}
	}
	return valid, removed
}

// scalar is a string or a number in a JSON text.
type scalar struct {
	path     string // path of the value as a JSON Pointer
	number   bool
	text     string // characters of the string, or the number as it is written
	from, to int    // offsets in bytes of the value in the JSON text
}

// scalars returns the strings and numbers of a JSON text, in order.
func scalars(data string) (found []scalar) {
	d := jsontext.NewDecoder(strings.NewReader(data))
	for {
		token, err := d.ReadToken()
		if err != nil { // the end of the text
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
		found = append(found, scalar{string(d.StackPointer()), kind == '0', text, from, to})
	}
}

// isKey reports whether the token that the decoder has just read is the name of an object's member.
func isKey(d *jsontext.Decoder) bool {
	kind, length := d.StackIndex(d.StackDepth())
	return kind == '{' && length%2 == 1
}

// quotedLength returns the length of the JSON string at the end of a text, including the quotation
// marks.
func quotedLength(text string) int {
	for at := len(text) - 2; at >= 0; at-- {
		if text[at] != '"' {
			continue
		}
		// A quotation mark after an odd number of backslashes is part of the string.
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
