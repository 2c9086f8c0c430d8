package run

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/openaiapi"
	"parley/ingress/internal/uistream"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/sessiondb"
)

// branch is the conversation before a new message, as the AI SDK sends it. If the user has edited a
// message or regenerated an answer, the client omits the later messages, and the new run must not
// continue them. The last answer before the new message determines which run the new run continues:
//
//	last answer                             the new run continues
//	the answer of a run of the session      this run
//	any other answer                        no run: the request contains the history
//	none                                    the session's last run, or none if a message is replaced
type branch struct {
	replaces   bool   // whether the last message replaces an earlier one or requests another answer to it
	replacedID string // id of the message to replace; empty: not sent
	messages   []conversationMessage
}

// triggerRegenerate is the value with which the AI SDK requests another answer to a message. Other
// triggers, such as submit-message, send a new message.
const triggerRegenerate = "regenerate-message"

// branch returns the conversation before the last message of d. d must have at least one message.
func (d *conversation) branch() *branch {
	b := &branch{replaces: d.Trigger == triggerRegenerate || d.Replaced != nil, messages: d.Messages.Value[:len(d.Messages.Value)-1]}
	if d.Replaced != nil {
		b.replacedID = *d.Replaced
	}
	return b
}

// lastAnswer returns the index of the last message of the assistant, or -1. Messages of other roles
// are ignored.
func (b *branch) lastAnswer() int {
	for i, m := range slices.Backward(b.messages) {
		if m.Role == openaiapi.RoleAssistant {
			return i
		}
	}
	return -1
}

// sent returns the parts of the request that determine which run the new run continues, for the
// request's fingerprint. It omits the history in a visitor's request, which is ignored. The
// fingerprint must be the same for a retry of the request, so it depends only on the request. If
// the id of the last answer contains a run's id, the result contains this run's id instead of the
// history.
func (b *branch) sent(visitor bool) (sent []string) {
	last, answered := b.lastAnswer(), b.replacedID
	if last >= 0 {
		answered = b.messages[last].ID
	}
	runID, ok := uistream.RunOfMessage(answered)
	switch {
	case last < 0 && !b.replaces:
		return nil
	case last < 0 && ok:
		return []string{"replaces", runID}
	case last < 0 || ok:
		return []string{"previous", runID}
	case visitor:
		return nil
	}

	for _, e := range b.history() {
		sent = append(sent, e.Message, e.Answer)
	}
	if len(sent) > 0 {
		sent = append(sent, "") // stands for missing instructions
	}
	return append(sent, "previous", "") // the request continues no run
}

// continueBy sets the run that a submission continues. It sets s.Previous and, if the request
// contains the history, s.History. continueBy is called while the submission is accepted. The error
// is an invalid request if a visitor replaces a message of another session.
func (b *branch) continueBy(ctx context.Context, s *dispatch.Submission, sessions *sessiondb.Store) error {
	last := b.lastAnswer()
	if last < 0 {
		return b.replaceFirst(ctx, s, sessions)
	}

	// If the last answer comes from the service, its id identifies the run that wrote the answer.
	runID, previous, err := precedingRun(ctx, s, sessions, b.messages[last].ID)
	switch {
	case err != nil:
		return err
	case previous != nil:
		s.Previous = &runID
		return nil
	}

	// Ignore a visitor's history, because visitors must not write answers of the agent.
	if visits(s.Caller) {
		if b.replaces {
			return apierr.Invalid("messages["+strconv.Itoa(last)+"].id", httpx.CodeInvalidValue, "is not an answer of this session")
		}
		return nil
	}

	// The answer is not from this session, so the run continues no run, and the request's history
	// is used.
	s.Previous, s.History = new(""), b.history()
	return nil
}

// replaceFirst sets the run that a submission continues if the request contains no answer. If the
// request replaces a message or an answer, the submission continues the run before it. If the
// session does not have the message to replace, the message is treated like the first message of
// the session.
func (b *branch) replaceFirst(ctx context.Context, s *dispatch.Submission, sessions *sessiondb.Store) error {
	if !b.replaces {
		return nil
	}
	_, previous, err := precedingRun(ctx, s, sessions, b.replacedID)
	if err != nil {
		return err
	}
	if previous == nil {
		previous = new("")
	}
	s.Previous = previous
	return nil
}

// precedingRun returns the run that wrote an answer of the submission's session. previous is the id
// of the run that this run continued, or empty if it continued none. If the session has no answer
// with this id, previous is nil. Answers of other principals' sessions are not found. A message
// that no run of the service wrote has no preceding run.
func precedingRun(
	ctx context.Context, s *dispatch.Submission, sessions *sessiondb.Store, messageID string,
) (runID string, previous *string, err error) {
	runID, ok := uistream.RunOfMessage(messageID)
	if !ok {
		return "", nil, nil
	}

	session := sessiondb.SessionName{OrganizationID: s.Caller.OrganizationID, TargetID: s.Target(), SessionID: s.SessionID}
	preceding, found, err := sessions.Preceding(ctx, session, s.Principal, runID)
	if err != nil || !found {
		return "", nil, err
	}
	return runID, &preceding, nil
}

// history returns the texts of the conversation. It omits the parts of messages that are not text,
// such as tool calls. A placeholder for the new message ends the list, so that all earlier messages
// become exchanges. Problems were reported before, and are ignored here.
func (b *branch) history() []domain.Exchange {
	said := make([]openaiapi.Said, 0, len(b.messages)+1)
	for _, m := range b.messages {
		if m.Role == openaiapi.RoleUser || m.Role == openaiapi.RoleAssistant {
			text, files := m.text()
			said = append(said, openaiapi.Said{Role: m.Role, Text: text, Files: files && m.Role == openaiapi.RoleUser})
		}
	}
	said = append(said, openaiapi.Said{Role: openaiapi.RoleUser, Text: "the new message"})
	return openaiapi.Converse(said, "messages", func(string, string, string, ...any) {}).History
}

// text returns the concatenated text parts of a message, and whether the message has files. A
// message whose parts have another form has no text.
func (m *conversationMessage) text() (string, bool) {
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(m.Parts, &parts) != nil {
		return "", false
	}
	var text strings.Builder
	files := false
	for _, part := range parts {
		if part.Type == "text" {
			text.WriteString(part.Text)
		}
		files = files || part.Type == "file"
	}
	return text.String(), files
}
