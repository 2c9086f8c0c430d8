package abuse

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/scripts/internal/api"
)

// hook is a webhook that a person has created.
type hook struct {
	owner  *person
	path   string
	secret string
}

// newHook creates a webhook for a source, such as "github".
func (p *person) newHook(t *testing.T, name, source string) *hook {
	t.Helper()
	h := &hook{owner: p, secret: "the secret of a hook, " + name}
	var made struct {
		ID string `json:"id"`
	}
	p.post(t.Context(), "/api/hooks", p.byKey(), map[string]any{
		"name": name, "agentId": p.agent, "source": source, "secret": h.secret, "messageTemplate": "A delivery came: {{a}}.",
	}).Want(t, http.StatusCreated).Into(t, &made)
	h.path = "/api/hooks/receive/" + made.ID
	return h
}

// deliver sends a signed delivery of about size bytes. It sends a large delivery in two pieces.
func (h *hook) deliver(ctx context.Context, by *client, id string, size int) api.Answer {
	body := payload(id, size)
	mac := hmac.New(sha256.New, []byte(h.secret))
	_, _ = mac.Write(body) // a hash never fails
	return h.send(ctx, by, id, hex.EncodeToString(mac.Sum(nil)), &inPieces{
		ctx: ctx, rest: body, piece: max(size/2+1, 1<<10), pause: piecePause, announced: true,
	})
}

// piecePause is the pause between the pieces of a large delivery. It simulates a slow network.
const piecePause = 100 * time.Millisecond

// send sends a delivery with the given signature, which may be wrong.
func (h *hook) send(ctx context.Context, by *client, id, signature string, body any) api.Answer {
	signature = "sha256=" + signature
	return by.post(ctx, h.path, header{
		"X-GitHub-Event": "push", "X-GitHub-Delivery": id, "X-Hub-Signature-256": signature, "X-Signature": signature,
	}, body)
}

// payload returns a JSON object of about size bytes.
func payload(id string, size int) []byte {
	return slices.Concat([]byte(`{"a":"`+id+`","b":"`), bytes.Repeat([]byte("x"), size), []byte(`"}`))
}

// wrongSignature is a well-formed but wrong signature.
var wrongSignature = strings.Repeat("0", 2*sha256.Size)
