package run

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"parley/ingress/internal/dispatch"
	"parley/ingress/internal/httpapi/httpx"
	"parley/ingress/internal/openaiapi"
	"parley/shared/contract"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/sessiondb"
)

// noQuestion replaces the missing message of the user in an exchange that has only an answer. A
// thread may begin with an answer, such as a greeting, and models reject an empty message.
const noQuestion = "(The assistant begins.)"

// thread is the list of messages that an AG-UI client sends. The list also contains the messages
// that are already in the session. The other messages are added to the submission; see bring. The
// messages are in the order of the request. The last one is the new message of the user.
type thread struct {
	said         []threadMessage // messages of the user and the assistant
	instructions []string        // messages of system and developer
}

// threadMessage is a message of the user or the assistant. runID is the id of the run that wrote
// the message, or empty if no run has written it. A message with the role tool becomes a message of
// the assistant.
type threadMessage struct {
	role, text, runID string
	files             []dispatch.Attachment // only for messages of the user
}

// readThread reads the messages of a conversation in AG-UI's format. It adds a problem for each
// message that an agent cannot use, because no message may be silently ignored. d must not contain
// the new message of the user.
func (d *conversation) readThread(found *httpx.Problems) *thread {
	t := &thread{}
	for i := range d.Messages.Value {
		m, at := &d.Messages.Value[i], "messages["+strconv.Itoa(i)+"]"

		// Messages of the service have ids of runs.
		written := writtenBy(m.ID)
		switch m.Role {
		case "user":
			text, files := readContent(found, at+".content", m.Content, true)
			t.said = append(t.said, threadMessage{role: m.Role, text: text, files: files})
		case "system", "developer":
			if text, _ := readContent(found, at+".content", m.Content, false); text != "" {
				t.instructions = append(t.instructions, text)
			}
		case "assistant":
			if len(m.ToolCalls) > 0 && written == "" {
				found.Add(at+".toolCalls", httpx.CodeInvalidValue, "is not supported in messages that the agent did not write")
			}
			text := ""
			if m.Content != nil && string(m.Content) != "null" {
				text, _ = readContent(found, at+".content", m.Content, false)
			}
			t.said = append(t.said, threadMessage{role: m.Role, text: text, runID: written})
		case "tool":
			if written == "" {
				found.Add(at+".role", httpx.CodeInvalidValue, "tool results are not supported: agents call their own tools")
			}
			t.said = append(t.said, threadMessage{role: "assistant", runID: written}) // no text, because the answer reflects the result
		default:
			found.Add(at+".role", httpx.CodeInvalidValue, "must be user, assistant, system or developer")
		}
	}
	return t
}

// writtenBy returns the id of the run that wrote the AG-UI message with this id, or "". The id of
// such a message contains the run's id without its prefix: msg_<run>_<n> for a text, and
// <call>_<run> for a tool call and its result. Any text is a valid id; ids of other origin have no
// run.
func writtenBy(messageID string) (runID string) {
	first, _, _ := strings.Cut(strings.TrimPrefix(messageID, "msg_"), "_")
	last := messageID[strings.LastIndex(messageID, "_")+1:]
	for _, suffix := range []string{first, last} {
		if id.Valid(id.Run, id.Run+"_"+suffix) {
			return id.Run + "_" + suffix
		}
	}
	return ""
}

// from converts the messages from the index start on to a submission's message, history and files.
// It joins consecutive messages of the same role. If there are more files than a run may have, it
// returns only the last files. An exchange without a question gets a text that stands for the
// question.
func (t *thread) from(start int) (message string, earlier []domain.Exchange, files []dispatch.Attachment) {
	var question, answer []string
	asked := 0 // number of files of the last question
	join := func(texts []string) string { return strings.Join(texts, "\n\n") }

	for _, m := range t.said[start:] {
		if m.role == "assistant" {
			if m.text != "" {
				answer = append(answer, m.text)
			}
			continue
		}
		if m.text == "" && len(m.files) == 0 {
			continue
		}
		if len(answer) > 0 {
			standIn := noQuestion
			if asked > 0 {
				standIn = openaiapi.AttachedText
			}
			earlier = append(earlier, domain.Exchange{Message: cmp.Or(join(question), standIn), Answer: join(answer)})
			question, answer, asked = nil, nil, 0
		}
		if m.text != "" {
			question = append(question, m.text)
		}
		asked, files = asked+len(m.files), append(files, m.files...)
	}
	return join(question), earlier, files[max(len(files)-domain.MaxAttachments, 0):]
}

// lastAnswer returns the index of the last message of the assistant, or -1. Results of
// tools count as messages of the assistant; see readThread.
func (t *thread) lastAnswer() int {
	for i, m := range slices.Backward(t.said) {
		if m.role == "assistant" {
			return i
		}
	}
	return -1
}

// sent returns a description of the messages up to the last answer, for the request's fingerprint.
// The messages after the last answer are part of the submission itself.
func (t *thread) sent() (sent []string) {
	for _, m := range t.said[:t.lastAnswer()+1] {
		sent = append(sent, m.role, m.text, m.runID)
		sent = append(sent, dispatch.SentAttachments(m.files)...)
	}
	return sent
}

// bring sets the run that a submission continues, and adds the messages that the session does not
// contain.
//
// If the session contains answers of the thread, the submission continues the last of them, and the
// messages after it are added. This is right even if the user has edited a message or regenerated
// an answer, because the client then omits the later messages. If the session contains no answer of
// the thread, as after the thread was copied, the submission continues no run, and all messages are
// added.
//
// Visitors must not write answers of the agent. Therefore only the messages after the last answer
// are added to a visitor's submission.
func (h *Handler) bring(ctx context.Context, s *dispatch.Submission, t *thread) error {
	// key identifies the session in the database.
	key := contract.Hash(s.Caller.OrganizationID, s.Target(), s.Principal, s.SessionID)
	last := t.lastAnswer()
	if last < 0 {
		return t.bringQuestions(ctx, s, h.SessionsDB, key)
	}
	s.Previous = new("")

	runs := []string{}
	for _, m := range t.said {
		if m.runID != "" {
			runs = append(runs, m.runID)
		}
	}

	// Compare the text of the last answer, too, because some clients change the ids of answers.
	known, same, err := h.SessionsDB.KnownAnswers(ctx, s.Caller.OrganizationID, key, runs, t.said[last].text)
	if err != nil {
		return err
	}

	// Search backward for the last answer that the session contains.
	start := 0
	for i, m := range slices.Backward(t.said) {
		if m.runID != "" && slices.Contains(known, m.runID) {
			start, s.Previous = i+1, &m.runID
			break
		}
		if i == last && same != "" {
			start, s.Previous = i+1, &same
			break
		}
	}
	if visits(s.Caller) {
		start = last + 1
	}

	// Everything from start on is new for the session.
	s.Message, s.History, s.Attachments = t.from(start)
	return nil
}

// bringQuestions is the variant of bring for a thread without answers. The submission continues the
// session's last run. But if the thread consists only of the session's first message, the user
// wants another answer to it, and the submission continues no run. A thread with several messages
// always continues the last run.
func (t *thread) bringQuestions(ctx context.Context, s *dispatch.Submission, sessions *sessiondb.Store, key []byte) error {
	s.Message, s.History, s.Attachments = t.from(0)
	if len(t.said) > 1 {
		return nil
	}

	again, err := sessions.FirstAnswered(ctx, s.Caller.OrganizationID, key, s.Message)
	if again {
		s.Previous = new("")
	}
	return err
}
