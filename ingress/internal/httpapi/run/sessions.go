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
	"parley/shared/apierr"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/secrets"
	"parley/shared/store/sessiondb"
)

const (
	// MaxContent is how many bytes of a message are shown where a turn alone has more than a page.
	MaxContent = 100_000 // characters of a message that does not fit a page
)

// sessionEntry is a session as lists show it.
type sessionEntry struct {
	ID         string      `json:"id"` // the client's name of it
	AgentID    *string     `json:"agentId"`
	TemplateID *string     `json:"templateId"`
	Principal  string      `json:"principal"`
	CreatedAt  domain.Time `json:"createdAt"`
	Runs       int         `json:"runs"`
}

// sessionMessages is a session with a page of its messages.
type sessionMessages struct {
	sessionEntry
	Messages   []message `json:"messages"`
	HasMore    bool      `json:"hasMore"`
	NextCursor *string   `json:"nextCursor"`
}

// message is one half of a turn. Its id is derived from the run's, and never changes.
type message struct {
	ID        string           `json:"id"`
	Role      string           `json:"role"`
	Content   string           `json:"content"`
	RunID     string           `json:"runId"`
	Status    domain.RunStatus `json:"status"`
	CreatedAt domain.Time      `json:"createdAt"`
	Citations json.RawMessage  `json:"citations,omitempty"` // of answers
	// ContentCut says that the content goes on: its turn alone has more bytes than a page.
	ContentCut bool `json:"contentCut,omitempty"`
	// Interrupted says of a spoken answer that it was not heard to its end: the content is what was heard.
	Interrupted bool `json:"interrupted,omitempty"`
}

// The roles of messages.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
)

// sessionKey is what the database knows a principal's session of a name by.
func sessionKey(name sessiondb.SessionName, principal string) []byte {
	return contract.Hash(name.OrganizationID, name.TargetID, principal, name.SessionID)
}

// getSessions is GET /api/sessions: the sessions that the caller may read, newest first, or with ?id= one with
// its messages.
func (h *Handler) getSessions(c *gin.Context) {
	if _, one := httpx.Query(c)["id"]; one {
		h.getSession(c)
		return
	}
	found := &httpx.Problems{}
	limit := httpx.ReadLimit(c, found)
	who := httpx.Caller(c)
	filter := sessiondb.SessionFilter{Principals: who.Readable(), Before: sessionCursor(h.Secrets, c, found)}
	principal, given := httpx.QueryValue(c, "principal", found)
	if err := found.Err(); err != nil {
		httpx.Fail(c, err)
		return
	}
	entries := []sessiondb.Session(nil)
	if given {
		filter.Principals = []string{principal}
	}
	if !given || who.MayRead(principal) { // a member sees none of others' sessions
		var err error
		if entries, err = h.SessionsDB.Sessions(c.Request.Context(), who.OrganizationID, filter, limit+1); err != nil {
			httpx.Fail(c, err)
			return
		}
	}
	httpx.WriteJSON(c, http.StatusOK, sessionList(h.Secrets, who.OrganizationID, entries, limit))
}

func sessionList(box *secrets.Box, org string, entries []sessiondb.Session, limit int) httpx.List[sessionEntry] {
	out := httpx.List[sessionEntry]{Data: []sessionEntry{}}
	if out.HasMore = len(entries) > limit; out.HasMore {
		entries = entries[:limit]
		// Refs count the sessions of all organizations: no caller is shown one.
		cursor := box.Seal(strconv.FormatInt(entries[limit-1].Ref, 10), cursorPlace(org))
		out.NextCursor = &cursor
	}
	for _, s := range entries {
		out.Data = append(out.Data, entryFor(s))
	}
	return out
}

func cursorPlace(org string) string { return "sessions cursor|" + org }

// sessionCursor reads where a list goes on; 0 is its beginning.
func sessionCursor(box *secrets.Box, c *gin.Context, found *httpx.Problems) int64 {
	text, given := httpx.QueryValue(c, "cursor", found)
	if !given {
		return 0
	}
	plain, err := box.Open(text, cursorPlace(httpx.Caller(c).OrganizationID))
	ref, malformed := strconv.ParseInt(plain, 10, 64)
	if err != nil || malformed != nil || ref < 1 {
		badCursor(found)
	}
	return ref
}

func badCursor(found *httpx.Problems) {
	found.Add("cursor", httpx.CodeInvalidValue, "must be the nextCursor of a page of this list")
}

// getSession gives one session with its newest turns, or with a cursor those before.
func (h *Handler) getSession(c *gin.Context) {
	found := &httpx.Problems{}
	name, exists, err := h.sessionNamed(c, found)
	limit, before := httpx.ReadLimit(c, found), turnCursor(c, found)
	if _, given := httpx.Query(c)["limit"]; !given {
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
	page, err := h.SessionsDB.PageOfSession(c.Request.Context(), name, before, limit, httpx.LargeBytes)
	if err == nil && page.Cut {
		h.getLargeSession(c, name, before, limit, max(page.Newest, httpx.PageBytes))
		return
	}
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	httpx.WriteJSON(c, http.StatusOK, shownSession(page, limit))
}

// getLargeSession gives a session whose messages make a large answer, of which at most so many bytes are read.
func (h *Handler) getLargeSession(c *gin.Context, name sessiondb.SessionName, before, limit, bytes int) {
	if err := httpx.ReserveAnswer(c, bytes); err != nil {
		httpx.Fail(c, err)
		return
	}
	page, err := h.SessionsDB.PageOfSession(c.Request.Context(), name, before, limit, 0)
	if err != nil {
		httpx.Fail(c, err)
		return
	}
	httpx.WriteJSON(c, http.StatusOK, shownSession(page, limit))
}

// maxTurn bounds the bytes of a turn's messages. The messages of a larger turn are cut.
const maxTurn = 8 << 20

// shownSession shows a page of a session: turns of at most httpx.PageBytes together, or one turn.
func shownSession(page sessiondb.SessionPage, limit int) sessionMessages {
	messages := make([][]message, len(page.Turns))
	for i, turn := range page.Turns {
		messages[i] = messagesFor(turn)
	}
	n := httpx.EntriesThatFit(messages, limit)
	if n == 1 {
		cutToFit(messages[0])
	}
	shown := sessionMessages{sessionEntry: entryFor(page.Session), Messages: []message{}, HasMore: page.More || n < len(page.Turns)}
	if shown.HasMore {
		cursor := base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(page.Turns[n-1].Seq)))
		shown.NextCursor = &cursor
	}
	for _, turn := range slices.Backward(messages[:n]) {
		shown.Messages = append(shown.Messages, turn...)
	}
	return shown
}

// cutToFit cuts the contents of a turn's messages that have more than maxTurn bytes.
func cutToFit(turn []message) {
	if body, err := json.Marshal(turn); err != nil || len(body) <= maxTurn {
		return
	}
	for i := range turn {
		m := &turn[i]
		if m.Content, m.ContentCut = domain.FirstRunes(m.Content, MaxContent); m.ContentCut {
			m.Citations = nil // of places that are not shown
		}
	}
}

// turnCursor reads before which turn a page ends; 0 is the newest page.
func turnCursor(c *gin.Context, found *httpx.Problems) int {
	text, given := httpx.QueryValue(c, "cursor", found)
	if !given {
		return 0
	}
	plain, err := base64.RawURLEncoding.Strict().DecodeString(text)
	seq, malformed := strconv.ParseInt(string(plain), 10, 32)
	if err != nil || malformed != nil || seq < 1 {
		badCursor(found)
	}
	return int(seq)
}

// eraseSession is DELETE /api/sessions?id=: everything that was said in it goes.
func (h *Handler) eraseSession(c *gin.Context) {
	found := &httpx.Problems{}
	name, exists, err := h.sessionNamed(c, found)
	if _, given, _ := sessionTarget(c, found); !given { // what is erased is named in full
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
	// Once it has begun it is carried through, whether or not the caller waits for it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), httpx.EraseTime)
	defer cancel()
	if err := h.Dispatch.EraseSession(ctx, name); err != nil {
		httpx.Fail(c, err)
		return
	}
	httpx.WriteJSON(c, http.StatusOK, httpx.Deleted(name.SessionID))
}

// sessionNamed reads which session a query means: the caller's own, or that of the principal that the query names. Where the query
// names no agent or template, the session is the only one of that name. exists is false when there cannot be one that the caller may use.
func (h *Handler) sessionNamed(c *gin.Context, found *httpx.Problems) (name sessiondb.SessionName, exists bool, err error) {
	who := httpx.Caller(c)
	name.OrganizationID = who.OrganizationID
	var given bool
	if name.SessionID, given = httpx.QueryValue(c, "id", found); !given {
		found.Add("id", httpx.CodeRequired, "is required: the session's id")
	}
	n := utf8.RuneCountInString(name.SessionID)
	exists = n >= 1 && n <= httpx.MaxSessionID && httpx.IsText(name.SessionID)
	principal, chosen := httpx.QueryValue(c, "principal", found)
	if !chosen {
		principal = who.Principal()
	}
	exists = exists && who.MayRead(principal)

	target, targeted, valid := sessionTarget(c, found)
	switch {
	case !exists || len(found.List) > 0:
		return name, exists, nil
	case targeted:
		name.TargetID, exists = target, valid
	default:
		if name.TargetID, principal, err = h.onlySession(c, found, name.SessionID, principal, chosen); err != nil {
			return name, false, err
		}
		exists = name.TargetID != ""
	}
	name.Key = sessionKey(name, principal)
	if exists {
		httpx.About(c, name.TargetID, "", name.SessionID)
	}
	return name, exists, nil
}

// onlySession finds whose session of a name it is: the principal's, or if that has none and was not chosen, another's that the caller
// may read. target is "" when there is none.
func (h *Handler) onlySession(
	c *gin.Context, found *httpx.Problems, sessionID, principal string, chosen bool,
) (target, whose string, err error) {
	ctx, who := c.Request.Context(), httpx.Caller(c)
	sessions, err := h.SessionsDB.SessionsNamed(ctx, who.OrganizationID, sessionID, []string{principal})
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

// sessionTarget reads whose session it is, an agent's or a template's; valid is false when it is the id of neither.
func sessionTarget(c *gin.Context, found *httpx.Problems) (target string, given, valid bool) {
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

func noSession() error { return apierr.New(apierr.NotFound, "no such resource") }

func entryFor(s sessiondb.Session) sessionEntry {
	entry := sessionEntry{ID: s.SessionID, Principal: s.Principal, CreatedAt: domain.At(s.CreatedAt), Runs: s.Runs}
	if id.Valid(id.Template, s.TargetID) {
		entry.TemplateID = &s.TargetID
	} else {
		entry.AgentID = &s.TargetID
	}
	return entry
}

// messagesFor returns a turn's messages: what was asked, and what was answered if the run has come that far.
func messagesFor(turn sessiondb.SessionTurn) []message {
	asked := message{
		ID: id.Derived(id.Message, turn.RunID, roleUser), Role: roleUser, Content: turn.Message,
		RunID: turn.RunID, Status: turn.Status, CreatedAt: domain.At(turn.CreatedAt),
	}
	if turn.Citations == nil || turn.Answer == nil && turn.Heard == nil && turn.Status != domain.RunCompleted {
		return []message{asked}
	}
	answered := asked
	answered.ID, answered.Role, answered.Content = id.Derived(id.Message, turn.RunID, roleAssistant), roleAssistant, ""
	answered.Citations = turn.Citations
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
