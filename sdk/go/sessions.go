package parley

import (
	"context"
	"maps"
	"net/http"
	"net/url"
)

const sessionsPath = "/api/sessions"

// Sessions reads and erases chats. A session is the ordered list of an agent's runs with one
// caller.
type Sessions struct{ group }

// SessionQuery selects sessions. Only admins may set Principal, which selects the sessions of
// another caller. The zero value selects all sessions that the caller may read.
type SessionQuery struct {
	Paging

	Principal string
}

// SessionID identifies a session. AgentID or TemplateID is needed if sessions of several agents
// have the same id. Only admins may set Principal, which selects a session of another caller. ID is
// the id that the client has chosen, or an id that contains the idempotency key.
type SessionID struct {
	ID, AgentID, TemplateID, Principal string
}

// query returns the parameters that identify the session, except its id.
func (s SessionID) query() url.Values {
	return params("agentId", s.AgentID, "templateId", s.TemplateID, "principal", s.Principal)
}

// Get reads a session with a page of its messages, oldest first. The first page contains the newest
// turns, and NextCursor leads to the page with older turns. paging.Limit is the number of turns.
func (s Sessions) Get(ctx context.Context, session SessionID, paging Paging) (*SessionWithMessages, error) {
	query := params("limit", number(paging.Limit), "cursor", paging.Cursor)
	maps.Copy(query, session.query())
	return act[SessionWithMessages](ctx, s.group, Request{Method: http.MethodGet, Path: sessionsPath, Query: query}, session.ID, "")
}

// List returns the caller's sessions, newest first. For admins, it returns all sessions of the
// organization. No request is made before the first page is read.
func (s Sessions) List(query SessionQuery) Pages[Session] {
	return list[Session](s.group, sessionsPath, params("principal", query.Principal), query.Paging)
}

// Delete erases a session: its messages, and the texts, steps and events of its runs. Runs in
// progress are cancelled. The deletion cannot be undone.
func (s Sessions) Delete(ctx context.Context, session SessionID) error {
	return remove(ctx, s.group, sessionsPath, session.ID, session.query())
}
