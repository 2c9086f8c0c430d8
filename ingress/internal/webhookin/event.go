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
	"parley/shared/truncate"
)

const (
	maxID = 200 // maximum length of a delivery's id, in characters; the id of a redelivery is a few characters longer
	// Maximum length of the name of an event, in characters.
	maxEvent = 200
	formForm = "application/x-www-form-urlencoded"
	// maxFormFields is the maximum number of fields of a form.
	maxFormFields = 1000
	// maxText is the maximum size of a text body that is converted to a JSON string. A larger body
	// has no payload, because its JSON may be six times as large.
	maxText = 4 << 20
)

// Event is a verified delivery with its id, its event name and its payload.
type Event struct {
	// ID of the delivery; never empty. A repeated delivery has the same id.
	ID      string
	Name    string // name of the event; "" if the source sends none
	Payload Payload
	Answer  any // response to a ping or a challenge; nil for a delivery that may start a run
}

// Read returns the id, event and payload of a verified delivery. idHeader is the header with the
// id; it is used only for the sources hmac and token. Read does not fail: a body that cannot be
// read has no payload. Read checks no signature.
func Read(source domain.HookSource, idHeader string, header http.Header, body []byte) Event {
	e := Event{Payload: ReadPayload(header.Get("Content-Type"), body)}
	switch source {
	// Each source sends the id and the name of the event in a different header or field.
	case domain.HookGitHub:
		e.ID, e.Name = header.Get(HeaderGitHubDelivery), header.Get(HeaderGitHubEvent)
		// GitHub sends a ping event when a webhook is created.
		if e.Name == "ping" {
			e.Answer = map[string]bool{"ok": true}
		}
	case domain.HookStripe:
		e.ID, e.Name = e.Payload.text("id"), e.Payload.text("type")
	case domain.HookSlack:
		e.readSlack()
	case domain.HookStandard:
		e.ID, e.Name = header.Get(standardHeaders(header)[0]), e.Payload.text("type")
	case domain.HookHMAC, domain.HookToken:
		if idHeader != "" {
			e.ID = header.Get(idHeader)
		}
		e.Name = e.Payload.text("type")
	}

	// The sender chooses these values, so they are changed into a form that can be stored and
	// listed.
	e.ID, e.Name = deliveryID(e.ID, body), shortName(e.Name)
	return e
}

// readSlack reads the id and the name of Slack's event from the payload. For an event callback, the
// name is that of the inner event.
func (e *Event) readSlack() {
	e.ID, e.Name = e.Payload.text("event_id"), e.Payload.text("type")
	// When the URL is configured, Slack sends a challenge and expects it in the response.
	if e.Name == "url_verification" {
		e.Answer = map[string]string{"challenge": e.Payload.text("challenge")}
		return
	}
	if inner := e.Payload.text("event.type"); inner != "" {
		e.Name = inner
	}
}

// deliveryID returns the id that the source has sent. If the id cannot be stored, it returns a hash
// of the id. If there is no id, it returns a hash of the body. The result has at most maxID
// characters, and repeated deliveries have the same result.
func deliveryID(given string, body []byte) string {
	if given != "" && utf8.ValidString(given) && domain.NameFault(given) == "" && utf8.RuneCountInString(given) <= maxID {
		return given
	}

	// If the id cannot be stored, the hash is that of the id and not that of the body, because two
	// deliveries may differ only in their ids.
	of := body
	if given != "" {
		of = []byte(given)
	}
	sum := sha256.Sum256(of)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// shortName returns the name of an event in the form in which it is stored. Unprintable characters
// are removed, and a long name ends with an ellipsis.
func shortName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name)
	return truncate.Ellipsis(name, maxEvent)
}

// Payload is the content of a delivery as JSON. A text body becomes a JSON string. A Payload is
// immutable. The JSON may share memory with the body, so the body must not change.
type Payload struct {
	raw     []byte // valid JSON without U+0000; nil if the body is neither JSON nor a text of at most maxText bytes
	Bytes   int    // size of the original body, in bytes
	Foreign bool   // whether the body is neither JSON nor a form
}

// ReadPayload reads the body of a delivery. It recognizes JSON with any content type, because some
// senders declare JSON as a form. A form may contain JSON in its field payload. Any other text
// becomes a JSON string. Any other body has no payload. contentType is the header of the request
// and may be malformed.
func ReadPayload(contentType string, body []byte) Payload {
	p := Payload{Bytes: len(body), raw: asJSON(body)}
	if p.raw != nil {
		return p
	}

	media, _, _ := mime.ParseMediaType(contentType) // a malformed type is treated like an unknown one
	if media == formForm {
		// A form may contain JSON, as GitHub's forms do.
		p.raw = ofForm(body)
		return p
	}
	p.raw, p.Foreign = asText(body), true
	return p
}

// ofForm returns the JSON in a form's field payload. Without that field, it returns a JSON object
// with the fields of the form. ofForm returns nil if the JSON could be larger than a payload may
// be. A malformed form, or one with too many fields, is treated as text.
func ofForm(body []byte) []byte {
	// A form with very many fields is not parsed, because that would take too much memory.
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
	// The JSON of a form of more than maxText bytes could be too large.
	if len(body) > maxText {
		return nil
	}

	// If a field has several values, the last one is used, as in JSON objects.
	flat := make(map[string]string, len(fields))
	for name, values := range fields {
		flat[clean(name)] = clean(values[len(values)-1])
	}
	return encoded(flat)
}

// encoded returns a value as JSON in which < and > are not escaped. It returns nil if the value
// cannot be encoded.
func encoded(value any) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil // texts always have a JSON form, so this is unreachable
	}
	return bytes.TrimSpace(out.Bytes())
}

// asText returns a text body as a JSON string. It returns nil if the body is empty, has more than
// maxText bytes or is not text. U+0000 is replaced by U+FFFD.
func asText(body []byte) []byte {
	if len(body) == 0 || len(body) > maxText || !utf8.Valid(body) {
		return nil
	}
	return encoded(clean(string(body)))
}

// asJSON returns a body that is one JSON value of limited depth, in which each U+0000 is replaced
// by U+FFFD. It returns nil for any other body. White space at the ends is removed. The result may
// share memory with body.
func asJSON(body []byte) []byte {
	// Some senders begin the body with a byte order mark, which JSON does not allow.
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(body) || !isPayload(body) {
		return nil
	}
	return withoutNUL(bytes.TrimSpace(body))
}

// withoutNUL replaces escaped U+0000, which PostgreSQL cannot store. raw is not changed.
func withoutNUL(raw []byte) []byte {
	if !bytes.Contains(raw, []byte(`\u0000`)) {
		return raw
	}

	// The replacement has the same length, so the copy is changed in place. After another
	// backslash, \u0000 is no escape sequence and does not change.
	out := bytes.Clone(raw)
	for i := 0; i+6 <= len(out); i++ {
		if out[i] != '\\' {
			continue
		}
		if string(out[i:i+6]) == `\u0000` {
			copy(out[i:], `\ufffd`)
		}
		i++ // skips the escaped character
	}
	return out
}

// clean replaces with U+FFFD the characters that cannot be stored. The result is valid UTF-8
// without U+0000.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// JSON returns the payload as JSON. ok is false if there is no payload, or if the payload has more
// than limit bytes. The result must not be modified.
func (p Payload) JSON(limit int) (raw json.RawMessage, ok bool) {
	return p.raw, p.raw != nil && len(p.raw) <= limit
}
