package mcp

import (
	"encoding/json"
	"net/http"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/agenttools"
	"parley/ingress/internal/httpapi/httpx"
	"parley/shared/apierr"
)

// registration is the path at which MCP clients that support OAuth try to register after /mcp has
// responded with 401. RFC 7591 defines the request.
const registration = "/register"

// IsRegistration reports whether a request is the registration of an OAuth client. The path has no
// route, so the router responds with NoOAuth.
func IsRegistration(c *gin.Context) bool { return c.Request.URL.Path == registration }

// NoOAuth returns the error for the registration of an OAuth client. Clients show their users this
// error, and not the preceding response of /mcp. It explains the cause that users can remove: the
// API key.
func NoOAuth() *apierr.Error {
	return apierr.New(apierr.NotFound,
		"this service does not use OAuth; the API key in the header x-api-key or Authorization is missing or wrong")
}

// fault is a JSON-RPC error that rejects a message as a whole. Problems of a tool call's arguments
// are not faults; they are results of the call.
type fault struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// findFault returns the JSON-RPC error for a message and its problems, or nil if the message is
// valid. The fault describes the first problem, because a JSON-RPC error has one message. If the
// message has another version of JSON-RPC, a problem is added to found.
func findFault(message *envelope, found *httpx.Problems) *fault {
	if message.Version != "" && message.Version != "2.0" {
		found.Add("jsonrpc", httpx.CodeInvalidValue, "must be 2.0")
	}
	if found.Err() == nil {
		return nil
	}

	first := found.List[0]
	if first.Field == httpx.BodyPath && first.Code == httpx.CodeInvalidJSON {
		return &fault{agenttools.CodeParseError, first.Message}
	}
	return &fault{agenttools.CodeInvalidRequest, first.Field + " " + first.Message}
}

// idFor returns the message's id in its original form, or nil if the message has no valid id. The
// response must repeat the id exactly, for example 1.0 and not 1.
func idFor(body []byte, found *httpx.Problems) json.RawMessage {
	var message struct {
		ID json.RawMessage `json:"id"`
	}
	if found.Has("id") || json.Unmarshal(body, &message) != nil || string(message.ID) == "null" {
		return nil
	}
	return message.ID
}

// writeFault responds to a message with a JSON-RPC error. For an unknown method, the status is 200,
// because the message itself is valid. If such a message is a notification, the response is empty
// and has the status 202. For any other error, the status is 400. The error is recorded for the log
// line of the request if the status is 400.
func writeFault(c *gin.Context, id json.RawMessage, f *fault) {
	status := http.StatusBadRequest
	if f.Code == agenttools.CodeMethodNotFound {
		status = http.StatusOK
		if id == nil {
			c.Status(http.StatusAccepted)
			c.Writer.WriteHeaderNow()
			return
		}
	}

	if status == http.StatusBadRequest {
		httpx.StateFor(c).Err = apierr.New(apierr.InvalidRequest, "%s", f.Message)
	}

	httpx.WriteJSON(c, status, struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   *fault          `json:"error"`
	}{"2.0", id, f})
}
