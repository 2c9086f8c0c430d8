package mcp

import (
	"encoding/json"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/contract"
	"parley/shared/id"
)

const (
	methodInitialize = "initialize"
	// Method of a message that cancels an earlier request. MCP calls such a message a notification.
	methodCancelled = "notifications/cancelled"

	// headerSession contains an id of the client. It distinguishes clients with the same
	// credential, whose requests may have equal ids. The service does not store these ids.
	headerSession = "Mcp-Session-Id"
	// Maximum length of the header's value, in bytes.
	maxSession = 128
	// Prefix of new session ids.
	sessionKind = "mcp"
)

// prepare handles two kinds of messages before the SDK responds to them. It adds a session id to
// the response to a client's first message. For a message that cancels an earlier request, it
// cancels the run of that request. A message that names no request is ignored.
func (h *Handler) prepare(c *gin.Context, message envelope) {
	switch message.Method {
	case methodInitialize:
		c.Header(headerSession, id.New(sessionKind))
	case methodCancelled:
		var cancelled struct {
			RequestID json.RawMessage `json:"requestId"`
		}
		if json.Unmarshal(message.Params, &cancelled) != nil || len(cancelled.RequestID) == 0 {
			return
		}
		if call := callName(c, cancelled.RequestID); call != "" {
			h.Readers.CancelCall(c.Request.Context(), call)
		}
	}
}

// callName returns a name for a client's request. No request of another client has the same name.
// It returns "" if the client sends no session id. The name is a hash, so that it has a fixed
// length and reveals nothing.
func callName(c *gin.Context, requestID json.RawMessage) string {
	sessions, who := c.Request.Header.Values(headerSession), httpx.Caller(c)
	if len(sessions) != 1 || sessions[0] == "" || len(sessions[0]) > maxSession || len(requestID) == 0 {
		return ""
	}
	return string(contract.Hash(who.OrganizationID, who.Principal(), who.KeyID, sessions[0], string(requestID)))
}
