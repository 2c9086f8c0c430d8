package httpx

import "github.com/gin-gonic/gin"

// Bounds of what a request to run an agent holds, in characters.
const (
	MaxSessionID = 128
	maxKey       = 255
)

// CheckMessage checks a message to an agent. Only its body bounds its length.
func CheckMessage(found *Problems, field, message string) {
	found.Text(field, message, 1, MaxMessageBody)
}

// IdempotencyKey reads the key from the body or the header; both may come, if they are the same.
func IdempotencyKey(found *Problems, c *gin.Context, inBody Optional[string]) string {
	headers := c.Request.Header.Values("Idempotency-Key")
	if len(headers) > 1 {
		found.Add("Idempotency-Key", CodeDuplicate, "was sent more than once")
		return ""
	}
	if inBody.Set {
		checkKey(found, "idempotencyKey", inBody.Value)
		if len(headers) == 1 && headers[0] != inBody.Value {
			found.Add("Idempotency-Key", CodeConflict, "differs from the key in the body")
		}
		return inBody.Value
	}
	if len(headers) == 0 {
		return ""
	}
	checkKey(found, "Idempotency-Key", headers[0])
	return headers[0]
}

func checkKey(found *Problems, field, key string) { found.Name(field, key, maxKey) }

// CheckSession checks the id of a session that a run is to belong to, under the name of its field.
func CheckSession(found *Problems, field, sessionID string) {
	found.Name(field, sessionID, MaxSessionID)
}
