package run

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/httpapi/runbody"
	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store/rundb"
	"parley/shared/store/sessiondb"
)

const (
	// MaxContent is the maximum length, in characters, of each message in a turn that is too large
	// for a page.
	MaxContent = 100_000
)

// sessionEntry is a session in a list. The id is unique only together with the target and the
// principal.
type sessionEntry struct {
	ID string `json:"id"` // chosen by the client
	// The agent, or nil for a template.
	AgentID    *string `json:"agentId"`
	TemplateID *string `json:"templateId"`
	// Owner of the session.
	Principal string      `json:"principal"`
	CreatedAt domain.Time `json:"createdAt"`
	// Number of runs in the session.
	Runs int `json:"runs"`
}

// sessionMessages is a session with a page of its messages. The messages are in the order of the
// conversation, and pages go backward in time.
type sessionMessages struct {
	sessionEntry
	Messages   []message `json:"messages"`
	HasMore    bool      `json:"hasMore"`
	NextCursor *string   `json:"nextCursor"`
}

// message is one half of a turn: the user's message or the answer. Its id is derived from the run's
// id and never changes. Clients can use the id as a key, also across pages.
type message struct {
	ID string `json:"id"`
	// The value of roleUser or roleAssistant.
	Role    string `json:"role"`
	Content string `json:"content"`
	// Run that received or wrote the message.
	RunID string `json:"runId"`
	// PreviousRunID is the id of the run that this message's run continues, or nil if it continues
	// none.
	PreviousRunID *string          `json:"previousRunId"`
	Status        domain.RunStatus `json:"status"`
	CreatedAt     domain.Time      `json:"createdAt"`
	Citations     json.RawMessage  `json:"citations,omitempty"` // only for answers
	// Attachments lists the images and documents of a user's message, in the form of the run
	// object.
	Attachments json.RawMessage `json:"attachments,omitempty"`
	// ContentCut means that the content is truncated, because the turn is larger than a page.
	ContentCut bool `json:"contentCut,omitempty"`
	// Interrupted means that a spoken answer was not played to its end. The content is the part
	// that was played.
	Interrupted bool `json:"interrupted,omitempty"`
}

// Roles of messages.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
)

// sessionKey returns the key under which the database stores a principal's session. It is a hash,
// so that it has a fixed length.
func sessionKey(name sessiondb.SessionName, principal string) []byte {
	return contract.Hash(name.OrganizationID, name.TargetID, principal, name.SessionID)
}

// sessionHandler handles requests for sessions. It is separate from the handler of runs, because it
// has methods of the same names.
type sessionHandler struct{ Deps }

// get handles GET /api/sessions: it returns the sessions that the caller may read, newest first, or
// with ?id= one session with its messages. The parameter principal selects the sessions of one
// principal.
func (h sessionHandler) get(c *gin.Context) {
	if _, one := httpx.Query(c)["id"]; one {
		h.getOne(c)
		return
	}

	found := &httpx.Problems{}
	limit := httpx.ReadLimit(c, found)
	who := httpx.Caller(c)
	filter := sessiondb.SessionFilter{Principals: who.Readable(), Before: sessionCursor(h.Secrets, c, found)}
	principal, present := httpx.QueryValue(c, "principal", found)
	if err := found.Err(); err != nil {
		httpx.Fail(c, err)
		return
	}

	entries := []sessiondb.Session(nil)
	if present {
		filter.Principals = []string{principal}
	}
	if !present || who.MayRead(principal) { // if the caller may not read the principal's sessions, the list is empty
		var err error
		if entries, err = h.SessionsDB.Sessions(c.Request.Context(), who.OrganizationID, filter, limit+1); err != nil {
			httpx.Fail(c, err)
			return
		}
	}

	httpx.WriteJSON(c, http.StatusOK, sessionList(h.Secrets, who.OrganizationID, entries, limit))
}

// sessionList returns a page of up to limit sessions. entries must contain one more session if
// further sessions exist. An empty list is not null. The cursor is encrypted for the organization.
func sessionList(box *secrets.Box, org string, entries []sessiondb.Session, limit int) httpx.List[sessionEntry] {
	out := httpx.List[sessionEntry]{Data: []sessionEntry{}}
	if out.HasMore = len(entries) > limit; out.HasMore {
		entries = entries[:limit]
		// A ref is a sequence number in which the sessions of all organizations are counted. It is
		// encrypted, so that the cursor reveals nothing about other organizations.
		cursor := box.Seal(strconv.FormatInt(entries[limit-1].Ref, 10), cursorContext(org))
		out.NextCursor = &cursor
	}

	for _, s := range entries {
		out.Data = append(out.Data, entryFor(s))
	}
	return out
}

// cursorContext returns the encryption context of a cursor. It contains the organization, so that
// other organizations cannot use the cursor.
func cursorContext(org string) string { return "sessions cursor|" + org }

// sessionCursor reads the cursor of a list of sessions. It returns 0 if the query has no cursor. An
// invalid cursor, or that of another organization, is added to found.
func sessionCursor(box *secrets.Box, c *gin.Context, found *httpx.Problems) int64 {
	text, present := httpx.QueryValue(c, "cursor", found)
	if !present {
		return 0
	}
	plain, err := box.Open(text, cursorContext(httpx.Caller(c).OrganizationID))
	ref, malformed := strconv.ParseInt(plain, 10, 64)
	if err != nil || malformed != nil || ref < 1 {
		addCursorProblem(found)
	}
	return ref
}

// addCursorProblem adds the problem of a cursor that cannot be decoded. The message is the same for
// all reasons.
func addCursorProblem(found *httpx.Problems) {
	found.Add("cursor", httpx.CodeInvalidValue, "must be the nextCursor of a page of this list")
}

// getOne responds with one session and a page of its turns: the newest turns, or those before the
// cursor. Without the parameter limit, a page has up to httpx.MaxPage turns. The error is not_found
// if the session does not exist or the caller may not read it.
func (h sessionHandler) getOne(c *gin.Context) {
	found := &httpx.Problems{}
	name, exists, err := h.requested(c, found)
	limit, before := httpx.ReadLimit(c, found), turnCursor(c, found)
	if _, present := httpx.Query(c)["limit"]; !present {
		limit = httpx.MaxPage
	}

	if err == nil {
		err = found.Err()
	}
	if err == nil && !exists {
		err = noSession()
	}
	if err != nil {
		httpx.Fail(c, err)
		return
	}

	// This read stops when the response would be large. In that case, wait for capacity and then
	// read the page again.
	page, err := h.SessionsDB.PageOfSession(c.Request.Context(), name, before, limit, httpx.LargeBytes)
	if err == nil && page.Cut {
		h.getLarge(c, name, before, limit, max(page.Newest, httpx.PageBytes))
		return
	}
	if err != nil {
		httpx.Fail(c, err)
		return
	}

	httpx.WriteJSON(c, http.StatusOK, newSessionPage(page, limit))
}

// getLarge responds with a session whose messages are a large response. It first reserves capacity.
// The argument bytes is an estimate of the response's size. Capacity is released when the response
// has been sent.
func (h sessionHandler) getLarge(c *gin.Context, name sessiondb.SessionName, before, limit, bytes int) {
	if err := httpx.ReserveAnswer(c, bytes); err != nil {
		httpx.Fail(c, err)
		return
	}
	page, err := h.SessionsDB.PageOfSession(c.Request.Context(), name, before, limit, 0)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	httpx.WriteJSON(c, http.StatusOK, newSessionPage(page, limit))
}

// maxTurn is the maximum size of the messages of a turn in bytes. The messages of a larger turn are
// truncated.
const maxTurn = 8 << 20

// newSessionPage returns a page of a session: as many turns as fit into httpx.PageBytes, at most
// limit and at least one. The cursor is the number of the oldest turn of the page.
func newSessionPage(page sessiondb.SessionPage, limit int) sessionMessages {
	messages := make([][]message, len(page.Turns))
	for i, turn := range page.Turns {
		messages[i] = messagesFor(turn)
	}

	n := httpx.EntriesThatFit(messages, limit)

	// A page has at least one turn, even if that turn is too large, so shorten it.
	if n == 1 {
		truncateTurn(messages[0])
	}

	shown := sessionMessages{sessionEntry: entryFor(page.Session), Messages: []message{}, HasMore: page.More || n < len(page.Turns)}
	if shown.HasMore {
		cursor := base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(page.Turns[n-1].Seq)))
		shown.NextCursor = &cursor
	}

	// The store returns the newest turn first, but clients show messages in the order of the
	// conversation.
	for _, turn := range slices.Backward(messages[:n]) {
		shown.Messages = append(shown.Messages, turn...)
	}
	return shown
}

// truncateTurn truncates the contents of a turn's messages if the messages together have more than
// maxTurn bytes. The citations of a truncated answer are dropped. Messages of a turn within the
// limit stay as they are.
func truncateTurn(turn []message) {
	if body, err := json.Marshal(turn); err != nil || len(body) <= maxTurn {
		return
	}
	for i := range turn {
		m := &turn[i]
		if m.Content, m.ContentCut = domain.FirstRunes(m.Content, MaxContent); m.ContentCut {
			m.Citations = nil // the citations may refer to the removed part
		}
	}
}

// turnCursor reads the cursor of a page of turns: the number of the turn before which the page
// ends. It returns 0 if the query has no cursor. An invalid cursor is added to found. Unlike the
// cursor of a list of sessions, this cursor is not encrypted, because it is a number within the
// session.
func turnCursor(c *gin.Context, found *httpx.Problems) int {
	text, present := httpx.QueryValue(c, "cursor", found)
	if !present {
		return 0
	}
	plain, err := base64.RawURLEncoding.Strict().DecodeString(text)
	seq, malformed := strconv.ParseInt(string(plain), 10, 32)
	if err != nil || malformed != nil || seq < 1 {
		addCursorProblem(found)
	}
	return int(seq)
}

// erase handles DELETE /api/sessions?id=: it erases all content of a session. The response follows
// the erasure, which continues if the caller disconnects. Afterwards, the session does not exist.
func (h sessionHandler) erase(c *gin.Context) {
	found := &httpx.Problems{}
	name, exists, err := h.requested(c, found)
	if _, present, _ := sessionTarget(c, found); !present { // an erasure must also name the agent or template, which is optional otherwise
		found.Add("agentId", httpx.CodeRequired, "is required, unless templateId is given")
	}
	if err == nil {
		err = found.Err()
	}
	if err == nil && !exists {
		err = noSession()
	}
	if err != nil {
		httpx.Fail(c, err)
		return
	}

	// The erasure continues if the caller disconnects.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), httpx.EraseTime)
	defer cancel()
	if err := h.Dispatch.EraseSession(ctx, name); err != nil {
		httpx.Fail(c, err)
		return
	}

	httpx.WriteJSON(c, http.StatusOK, httpx.Deleted(name.SessionID))
}

// requested reads the name of the requested session from the query: a session of the caller, or of
// the principal that the query names. If the query names no agent or template, only one session may
// have the id. exists is false if there is no such session or the caller may not read it. Problems
// of the query are added to found, and err is only for a failed look-up. name.Key is the key under
// which the session is stored.
func (h sessionHandler) requested(c *gin.Context, found *httpx.Problems) (name sessiondb.SessionName, exists bool, err error) {
	who := httpx.Caller(c)
	name.OrganizationID = who.OrganizationID
	var present bool
	if name.SessionID, present = httpx.QueryValue(c, "id", found); !present {
		found.Add("id", httpx.CodeRequired, "is required: the session's id")
	}

	// An id that no session can have is treated like the id of a missing session, and likewise a
	// principal that is not text. find runs before admission has checked the query's text.
	n := utf8.RuneCountInString(name.SessionID)
	exists = n >= 1 && n <= runbody.MaxSessionID && httpx.IsText(name.SessionID)

	principal, chosen := httpx.QueryValue(c, "principal", found)
	if !chosen {
		principal = who.Principal()
	}

	exists = exists && httpx.IsText(principal) && who.MayRead(principal)

	target, targeted, valid := sessionTarget(c, found)
	switch {
	case !exists || len(found.List) > 0:
		return name, exists, nil
	case targeted:
		name.TargetID, exists = target, valid
	default:
		if name.TargetID, principal, err = h.only(c, found, name.SessionID, principal, chosen); err != nil {
			return name, false, err
		}
		exists = name.TargetID != ""
	}

	name.Key = sessionKey(name, principal)
	if exists {
		httpx.SetLogIDs(c, name.TargetID, "", name.SessionID)
	}
	return name, exists, nil
}

// only finds the single session with the id, and returns its target and principal. It first looks
// for a session of the given principal. If there is none and the query names no principal (chosen
// is false), it looks for other sessions that the caller may read. target is "" if there is no such
// session. If there are several sessions, a problem is added to found.
func (h sessionHandler) only(
	c *gin.Context, found *httpx.Problems, sessionID, principal string, chosen bool,
) (target, whose string, err error) {
	ctx, who := c.Request.Context(), httpx.Caller(c)

	sessions, err := h.SessionsDB.SessionsNamed(ctx, who.OrganizationID, sessionID, []string{principal})

	// The caller's own session takes precedence over other sessions.
	if err == nil && len(sessions) == 0 && !chosen {
		sessions, err = h.SessionsDB.SessionsNamed(ctx, who.OrganizationID, sessionID, who.Readable())
	}

	switch {
	case err != nil:
		return "", "", err
	case len(sessions) == 0:
		return "", principal, nil
	case len(sessions) > 1:
		found.Add("agentId", httpx.CodeRequired,
			"several sessions have this id: add agentId or templateId, and principal for another caller's session")
	}

	return sessions[0].TargetID, sessions[0].Principal, nil
}

// sessionTarget reads the id of the session's agent or template from the query. valid is false if
// the id is malformed. present is false if the query names neither. Both together are a problem.
func sessionTarget(c *gin.Context, found *httpx.Problems) (target string, present, valid bool) {
	agentID, byAgent := httpx.QueryValue(c, "agentId", found)
	templateID, byTemplate := httpx.QueryValue(c, "templateId", found)
	switch {
	case byAgent && byTemplate:
		found.Add("agentId", httpx.CodeInvalidValue, "must not be combined with templateId")
	case byAgent:
		return agentID, true, id.Valid(id.Agent, agentID)
	case byTemplate:
		return templateID, true, id.Valid(id.Template, templateID)
	}

	return "", false, false
}

// noSession returns the error for a session that does not exist or that the caller may not read.
// Both cases have the same error, so that ids reveal nothing.
func noSession() error { return apierr.Missing() }

// entryFor returns a session in the form of an entry of a list. The id of the target shows whether
// it is a template.
func entryFor(s sessiondb.Session) sessionEntry {
	entry := sessionEntry{ID: s.SessionID, Principal: s.Principal, CreatedAt: domain.At(s.CreatedAt), Runs: s.Runs}
	if id.Valid(id.Template, s.TargetID) {
		entry.TemplateID = &s.TargetID
	} else {
		entry.AgentID = &s.TargetID
	}
	return entry
}

// messagesFor returns the messages of a turn: the user's message and, if there is one, the answer.
// A turn in progress has no answer yet.
func messagesFor(turn sessiondb.SessionTurn) []message {
	asked := message{
		ID: id.Derived(id.Message, turn.RunID, roleUser), Role: roleUser, Content: turn.Message,
		RunID: turn.RunID, PreviousRunID: rundb.NamedRun(turn.PreviousRun), Status: turn.Status, CreatedAt: domain.At(turn.CreatedAt),
		Attachments: turn.Files,
	}

	// A completed run has an answer, which may be empty. Any other run has an answer only if some
	// text of the answer is stored.
	stored := turn.Answer != nil || turn.Heard != nil && *turn.Heard != ""
	if turn.Citations == nil || !stored && turn.Status != domain.RunCompleted {
		return []message{asked}
	}

	answered := asked
	answered.ID, answered.Role, answered.Content = id.Derived(id.Message, turn.RunID, roleAssistant), roleAssistant, ""
	answered.Citations, answered.Attachments = turn.Citations, nil

	// If the answer was interrupted, show the part that the user has heard or read.
	switch {
	case turn.Heard != nil:
		answered.Content, answered.Interrupted = *turn.Heard, true
	case turn.Answer != nil:
		answered.Content = *turn.Answer
	}

	if turn.FinishedAt != nil {
		answered.CreatedAt = domain.At(*turn.FinishedAt)
	}
	return []message{asked, answered}
}

// find is the Finder for sessions. It returns nil if the query does not identify a session. The
// handler reports the problems of the query.
func (h sessionHandler) find(c *gin.Context) error {
	found := &httpx.Problems{}
	name, exists, err := h.requested(c, found)
	switch {
	case err != nil:
		return err
	case found.Err() != nil:
		return nil //nolint:nilerr // the query names no session
	case !exists:
		return httpx.NotFound()
	}

	_, err = h.SessionsDB.PageOfSession(c.Request.Context(), name, 0, 1, 1) // only checks that the session exists
	return err
}
