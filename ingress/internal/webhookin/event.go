package webhookin

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/shared/domain"
)

const (
	maxID    = 200 // characters of a delivery's id; that of one delivered again has a few more
	maxEvent = 200
	formForm = "application/x-www-form-urlencoded"
	// Fields of a form that are read; what comes behind them is passed over.
	maxFormFields = 1000
	// Bytes of a body that is no JSON and is made JSON of. Of a larger one there is no payload: written as JSON it may be six times as much.
	maxText = 4 << 20
)

// Event is a delivery that was verified, as its source names it.
type Event struct {
	ID      string
	Name    string // "" when the source names no events
	Payload Payload
	Answer  any // what a ping or a challenge is answered; nil: the delivery is one to run for
}

// Read names a verified delivery and reads its payload.
func Read(source domain.HookSource, idHeader string, header http.Header, body []byte) Event {
	e := Event{Payload: ReadPayload(header.Get("Content-Type"), body)}
	switch source {
	case domain.HookGitHub:
		e.ID, e.Name = header.Get(HeaderGitHubDelivery), header.Get(HeaderGitHubEvent)
		if e.Name == "ping" {
			e.Answer = map[string]bool{"ok": true}
		}
	case domain.HookStripe:
		e.ID, e.Name = e.Payload.text("id"), e.Payload.text("type")
	case domain.HookSlack:
		e.readSlack()
	case domain.HookStandard:
		e.ID, e.Name = header.Get(HeaderID), e.Payload.text("type")
	case domain.HookHMAC, domain.HookToken:
		if idHeader != "" {
			e.ID = header.Get(idHeader)
		}
		e.Name = e.Payload.text("type")
	}
	e.ID, e.Name = deliveryID(e.ID, body), shortName(e.Name)
	return e
}

// readSlack names a delivery of Slack's by what has happened, which stands within the event.
func (e *Event) readSlack() {
	e.ID, e.Name = e.Payload.text("event_id"), e.Payload.text("type")
	if e.Name == "url_verification" {
		e.Answer = map[string]string{"challenge": e.Payload.text("challenge")}
		return
	}
	if inner := e.Payload.text("event.type"); inner != "" {
		e.Name = inner
	}
}

// deliveryID is the id that a source gave, or one made of the body when it gave none that can be kept.
func deliveryID(given string, body []byte) string {
	if given != "" && utf8.ValidString(given) && domain.NameFault(given) == "" && utf8.RuneCountInString(given) <= maxID {
		return given
	}
	of := body
	if given != "" {
		of = []byte(given)
	}
	sum := sha256.Sum256(of)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// shortName is an event's name as it is kept.
func shortName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name)
	return cut(name, maxEvent)
}

// Payload is what a delivery brings: JSON, or else a text that stands in its place.
type Payload struct {
	raw     []byte // valid JSON without U+0000; nil when the body is neither JSON nor a text of a few MiB
	Bytes   int    // of the body
	Foreign bool   // the body is neither JSON nor a form
}

// ReadPayload reads a body: JSON, whatever its type says, as some senders call everything a form; a form (whose field payload may be
// JSON), or text. What is none of these has no payload.
func ReadPayload(contentType string, body []byte) Payload {
	p := Payload{Bytes: len(body), raw: asJSON(body)}
	if p.raw != nil {
		return p
	}
	media, _, _ := mime.ParseMediaType(contentType) // what is no type is none of ours
	if media == formForm {
		p.raw = ofForm(body)
		return p
	}
	p.raw, p.Foreign = asText(body), true
	return p
}

// ofForm gives the JSON that a form's field payload holds, or an object of its fields.
func ofForm(body []byte) []byte {
	if bytes.Count(body, []byte("&")) >= maxFormFields {
		return asText(body)
	}
	fields, err := url.ParseQuery(string(body))
	if err != nil {
		return asText(body)
	}
	if values := fields["payload"]; len(values) == 1 {
		if raw := asJSON([]byte(values[0])); raw != nil {
			return raw
		}
	}
	if len(body) > maxText {
		return nil
	}
	flat := make(map[string]string, len(fields))
	for name, values := range fields {
		flat[clean(name)] = clean(values[len(values)-1])
	}
	return written(flat)
}

// written renders texts as JSON, with < and > as they are.
func written(value any) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil // not reached: texts have a JSON form
	}
	return bytes.TrimSpace(out.Bytes())
}

// asText gives a body that is text, and not too large, as a JSON string.
func asText(body []byte) []byte {
	if len(body) == 0 || len(body) > maxText || !utf8.Valid(body) {
		return nil
	}
	return written(clean(string(body)))
}

// asJSON gives a body that is one JSON value, not nested too deeply, with U+FFFD for every U+0000; nil for any other.
func asJSON(body []byte) []byte {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(body) || !isPayload(body) {
		return nil
	}
	return withoutNUL(bytes.TrimSpace(body))
}

// withoutNUL replaces escapes of U+0000, which no database takes.
func withoutNUL(raw []byte) []byte {
	if !bytes.Contains(raw, []byte(`\u0000`)) {
		return raw
	}
	out := bytes.Clone(raw)
	for i := 0; i+6 <= len(out); i++ {
		if out[i] != '\\' {
			continue
		}
		if string(out[i:i+6]) == `\u0000` {
			copy(out[i:], `\ufffd`)
		}
		i++ // the escaped character
	}
	return out
}

// clean takes out what no text of ours may hold.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// JSON gives the payload as JSON; ok is false above most bytes, or when there is none.
func (p Payload) JSON(limit int) (raw json.RawMessage, ok bool) {
	return p.raw, p.raw != nil && len(p.raw) <= limit
}
