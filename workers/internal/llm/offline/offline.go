package offline

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"parley/workers/internal/llm"
)

// contextTokens is the context size that Info returns. The offline models have no actual limit.
const contextTokens = 100_000

// notice is the beginning of the first answer of a session.
const notice = "(Offline model: fixed rules, no language model.)\n\n"

// Provider returns the offline models. The empty name means the model "offline", and the name
// "echo" means "offline/echo".
type Provider struct{}

// Model returns the model with the given name. For an unknown name, it returns an error of
// llm.KindUnknownModel.
func (Provider) Model(name string) (llm.Model, error) {
	switch name {
	case "":
		return Model{}, nil
	case "echo":
		return Echo{}, nil
	default:
		return nil, llm.UnknownModel("offline/" + name)
	}
}

// Models returns the names of the offline models.
func (Provider) Models(context.Context) ([]string, error) { return []string{"", "echo"}, nil }

// Echo is a model that answers "echo: " and the last user message, as one piece of text. Its tokens
// are the words of the message and of the answer.
type Echo struct{}

// Info returns the name "offline/echo".
func (Echo) Info() llm.Info { return llm.Info{Name: "offline/echo", ContextTokens: contextTokens} }

// Stream answers immediately; see [llm.Model].
func (Echo) Stream(ctx context.Context, req llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	if err := ctx.Err(); err != nil {
		return llm.Response{}, fmt.Errorf("echoing: %w", err)
	}
	message := ""
	if i := lastUser(req.Messages); i >= 0 {
		message = req.Messages[i].Text
	}

	// The stop texts apply before the limit.
	text, stop := limited(stopped("echo: "+message, req.Settings.Stop), req.MaxTokens)
	emit(llm.Delta{Text: text})
	return llm.Response{
		Text: text, Model: "offline/echo", StopReason: stop,
		Usage: llm.Usage{InputTokens: countWords(message), OutputTokens: countWords(text)},
	}, nil
}

// stopped returns the part of an answer that precedes the first of the texts in stop.
func stopped(text string, stop []string) string {
	for _, end := range stop {
		text, _, _ = strings.Cut(text, end)
	}
	return text
}

// limited returns the first maxTokens words of an answer, or all if maxTokens is 0, and the stop
// reason. A word is a token.
func limited(text string, maxTokens int64) (string, llm.StopReason) {
	if maxTokens <= 0 || countWords(text) <= maxTokens {
		return text, llm.StopEnd
	}
	end := 0
	for range maxTokens {
		end += wordLength(text[end:])
	}
	return strings.TrimRightFunc(text[:end], unicode.IsSpace), llm.StopLength
}

// Model is the model "offline".
type Model struct{}

// Info returns the name "offline".
func (Model) Info() llm.Info { return llm.Info{Name: "offline", ContextTokens: contextTokens} }

// Stream requests tools or answers; see [llm.Model].
func (Model) Stream(ctx context.Context, req llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	if err := ctx.Err(); err != nil {
		return llm.Response{}, fmt.Errorf("answering offline: %w", err)
	}

	// A message about the session, the agent or its attachments needs no tool.
	p := read(req)
	res := llm.Response{Model: "offline", StopReason: llm.StopEnd, Usage: llm.Usage{InputTokens: promptWords(req)}}
	if !p.remembers() && !p.asksForHelp() && !p.looksAt() {
		res.ToolCalls, p.lacks = p.plan()
	}
	res.ToolCalls = p.chosen(req.ToolChoice, res.ToolCalls)
	if len(p.results) > 0 {
		res.ToolCalls = nil // all tools are requested at once
	}

	if one := req.Settings.ParallelToolCalls; one != nil && !*one && len(res.ToolCalls) > 1 {
		res.ToolCalls = res.ToolCalls[:1]
	}
	if len(res.ToolCalls) > 0 {
		for i := range res.ToolCalls {
			// The ids are not random, so the same request always has the same response.
			res.ToolCalls[i].ID = "call_" + strconv.Itoa(i+1)
			res.Usage.OutputTokens += 1 + countWords(string(res.ToolCalls[i].Arguments))
		}
		res.StopReason = llm.StopToolCalls
		return res, nil
	}

	switch {
	case len(req.Output) > 0:
		res.Text = p.filled(req.Output)
	case req.SessionStart:
		res.Text = notice + p.answer()
	default:
		res.Text = p.answer()
	}
	res.Text, res.StopReason = limited(stopped(res.Text, req.Settings.Stop), req.MaxTokens)
	res.Usage.OutputTokens = countWords(res.Text)
	return res, emitWords(ctx, res.Text, emit)
}

// prompt contains the parts of a request that the rules use.
type prompt struct {
	system  string
	earlier []llm.Message // messages before the message that is to be answered
	message string
	data    []byte
	tools   []llm.ToolSpec
	lacks   []string         // a sentence for each tool that is not called because arguments are missing
	results []llm.ToolResult // results of the tools that were requested for the message

	attachments []llm.Attachment // the attachments to which the message refers
}

// read parses a request. The message to answer is the last user message. A request to correct an
// answer gets the same answer again.
func read(req llm.Request) prompt {
	p := prompt{system: req.System, tools: req.Tools}
	// The last two messages are the invalid answer and the request to correct it.
	if req.Correction {
		req.Messages = req.Messages[:max(len(req.Messages)-2, 0)]
	}
	i := lastUser(req.Messages)
	if i < 0 {
		return p
	}
	p.earlier, p.message, p.data = req.Messages[:i], beginning(req.Messages[i].Text), req.Messages[i].Data
	p.attachments = attachmentsFor(req.Messages, i)
	// Only results after the message belong to it. Earlier results were already answered.
	for _, m := range req.Messages[i+1:] {
		if m.Result != nil {
			p.results = append(p.results, *m.Result)
		}
	}
	return p
}

// messageRead is the number of characters of a message that the rules examine. The limit bounds the
// time of the rules, which grows with the text.
const messageRead = 32_000

// beginning returns the part of a message that the rules examine.
func beginning(message string) string {
	n := 0
	for at := range message {
		if n++; n > messageRead {
			return message[:at]
		}
	}
	return message
}

// lastUser returns the index of the last user message, or -1.
func lastUser(messages []llm.Message) int {
	for i, message := range slices.Backward(messages) {
		if message.Role == llm.RoleUser {
			return i
		}
	}
	return -1
}

// emitWords emits a text word by word. Each piece includes the white space after the word. It stops
// when ctx ends.
func emitWords(ctx context.Context, text string, emit func(llm.Delta)) error {
	for text != "" {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("answering offline: %w", err)
		}
		n := wordLength(text)
		emit(llm.Delta{Text: text[:n]})
		text = text[n:]
	}
	return nil
}

// wordLength returns the offset at which the second word of a text begins, or the length of the
// text if there is no second word.
func wordLength(text string) int {
	rest := strings.TrimLeftFunc(text, unicode.IsSpace)
	end := strings.IndexFunc(rest, unicode.IsSpace)
	if end < 0 {
		return len(text)
	}
	return len(text) - len(strings.TrimLeftFunc(rest[end:], unicode.IsSpace))
}

// promptWords counts the words of the whole prompt.
func promptWords(req llm.Request) int64 {
	n := countWords(req.System)
	for _, m := range req.Messages {
		n += countWords(m.Text) + countWords(string(m.Data))
		for _, c := range m.ToolCalls {
			n += 1 + countWords(string(c.Arguments))
		}
		if m.Result != nil {
			n += countWords(string(m.Result.Output))
			for _, s := range m.Result.Sources {
				n += countWords(s.CitedText)
			}
		}
	}
	return n
}

// countWords counts the words between white space. It allocates no memory for them.
func countWords(s string) (n int64) {
	for range strings.FieldsSeq(s) {
		n++
	}
	return n
}

// words returns the words of a text in lower case, except stop words. In scripts without spaces
// between words, it returns pairs of characters instead.
func words(text string) []string {
	fields := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	})
	var kept []string
	for _, f := range fields {
		switch {
		case strings.ContainsFunc(f, isUnspaced):
			kept = append(kept, pairs(f)...)
		case !stopWords[f]:
			kept = append(kept, f)
		}
	}
	return kept
}

// isUnspaced reports whether a character's script has no spaces between words.
func isUnspaced(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer)
}

// pairs returns every two adjacent characters of a word. If the word has a single character, it
// returns that character.
func pairs(word string) []string {
	runes := []rune(word)
	if len(runes) == 1 {
		return []string{word}
	}
	list := make([]string, 0, len(runes)-1)
	for i := range len(runes) - 1 {
		list = append(list, string(runes[i:i+2]))
	}
	return list
}

// stopWords are words that occur in any text, so they show nothing about its subject.
var stopWords = setFor(`a about all am an and any are as at be been but by can could did do does for from get give
 had has have he her his how i if in into is it its me my no not of on or our please s she should so some t tell
 than that the their them then there these they this to us was we were what when where which who whom why will
 with would you your`)

// setFor returns the set of the words in a list, which white space separates.
func setFor(list string) map[string]bool {
	set := make(map[string]bool)
	for f := range strings.FieldsSeq(list) {
		set[f] = true
	}
	return set
}
