package runbody

import (
	"encoding/json"
	"strings"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/domain"
	"parley/shared/schema"
)

// Maximum lengths of a run request's fields, in characters.
const (
	// MaxSessionID is the maximum length of a session id, which clients choose.
	MaxSessionID = 128
	// maxKey is the maximum length of an idempotency key.
	maxKey = 255
)

// CheckMessage checks a message to an agent. The message must not be empty. Only the maximum size
// of the body limits its length. Problems are added to found. Their path is the argument field.
func CheckMessage(found *httpx.Problems, field, message string) {
	found.Text(field, message, 1, httpx.MaxMessageBody)
}

// OptionsBody contains the fields of a run request except the message. Request bodies embed it.
// OutputBody, SettingsBody and the tools become options of the run.
type OptionsBody struct {
	Output httpx.Removable[OutputBody] `json:"output"` // null: text, even if the agent has a schema
	SettingsBody
	// Tools that the client executes itself.
	Tools httpx.Optional[[]ClientToolBody] `json:"tools"`
	// Images and documents for the agent.
	Attachments httpx.Optional[[]AttachmentBody] `json:"attachments"`
}

// Options checks the fields and returns the options that they contain. The attachments are not part
// of the options; see AskedAttachments. Problems are added to found.
func (b *OptionsBody) Options(found *httpx.Problems) (asked domain.RunOptions) {
	switch {
	case b.Output.Null:
		asked.Output = &domain.OutputContract{}
	case b.Output.Set:
		CheckOutputSchema(found, "output.schema", b.Output.Value.Schema)
		asked.Output = &domain.OutputContract{Schema: domain.JSONSchema(b.Output.Value.Schema)}
	}
	asked.Settings = b.Settings(found)
	asked.ClientTools = clientTools(found, b.Tools.Value)
	return asked
}

// OutputBody describes the form of the answer that a run request requires. The answer is then JSON
// that matches the schema.
type OutputBody struct {
	Schema json.RawMessage `json:"schema" required:"true"`
}

// CheckOutputSchema checks the JSON Schema of answers. field is the name of the field with the
// schema. A missing schema is valid. A field that already has a problem is not checked again.
func CheckOutputSchema(found *httpx.Problems, field string, raw json.RawMessage) {
	if raw == nil || found.Has(field) {
		return
	}
	if _, err := schema.CompileOutput(raw); err != nil {
		found.Add(field, httpx.CodeInvalidValue, "is not a usable JSON Schema: %s", strings.TrimPrefix(err.Error(), "reading schema: "))
	}
}

// CheckMessage checks the message of the request like the function CheckMessage, except that the
// message may be empty if there are attachments.
func (b *OptionsBody) CheckMessage(found *httpx.Problems, field, message string) {
	if message != "" || len(b.Attachments.Value) == 0 {
		CheckMessage(found, field, message)
	}
}

// IdempotencyKey reads the idempotency key from the body or the header. If both contain a key, the
// two keys must be equal. The result is "" if there is none. Problems are added to found. After a
// problem, the result must not be used.
func IdempotencyKey(found *httpx.Problems, c *gin.Context, inBody httpx.Optional[string]) string {
	headers := c.Request.Header.Values("Idempotency-Key")
	if len(headers) > 1 {
		found.Add("Idempotency-Key", httpx.CodeDuplicate, "must be sent only once")
		return ""
	}

	if inBody.Set {
		checkKey(found, "idempotencyKey", inBody.Value)
		if len(headers) == 1 && headers[0] != inBody.Value {
			found.Add("Idempotency-Key", httpx.CodeConflict, "differs from the key in the body")
		}
		return inBody.Value
	}
	if len(headers) == 0 {
		return ""
	}

	checkKey(found, "Idempotency-Key", headers[0])
	return headers[0]
}

// checkKey checks an idempotency key. field is the name of the header or of the JSON member that
// contains the key. A key is a single line without invisible characters.
func checkKey(found *httpx.Problems, field, key string) { found.Name(field, key, maxKey) }

// CheckSession checks the session id of a run request. The argument field is the name of the field
// with the id. Clients choose the id, and the session need not exist yet.
func CheckSession(found *httpx.Problems, field, sessionID string) {
	found.Name(field, sessionID, MaxSessionID)
}
