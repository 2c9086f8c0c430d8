package uistream

import (
	"encoding/json"
	"path"
	"strconv"
	"strings"

	"parley/shared/domain"
	"parley/shared/id"
)

// aisdk encodes the AI SDK's UI message stream, which is one message that consists of parts. Tool
// calls are marked as executed by the service, because clients would otherwise try to execute them.
// The type has no state of the stream; the Encoder keeps that state.
type aisdk struct{}

// chunk is a chunk of the stream. The type determines which fields are set. All chunks of one text
// or tool call have the same id.
type chunk struct {
	Type             string          `json:"type"`
	ID               string          `json:"id,omitempty"`
	MessageID        string          `json:"messageId,omitempty"`
	MessageMetadata  any             `json:"messageMetadata,omitempty"`
	Delta            string          `json:"delta,omitempty"`
	ToolCallID       string          `json:"toolCallId,omitempty"`
	ToolName         string          `json:"toolName,omitempty"`
	Input            json.RawMessage `json:"input,omitempty"`
	Output           json.RawMessage `json:"output,omitempty"`
	Dynamic          bool            `json:"dynamic,omitempty"`
	ProviderExecuted bool            `json:"providerExecuted,omitempty"`
	SourceID         string          `json:"sourceId,omitempty"`
	URL              string          `json:"url,omitempty"`
	Title            string          `json:"title,omitempty"`
	MediaType        string          `json:"mediaType,omitempty"`
	Data             any             `json:"data,omitempty"`
	ErrorText        string          `json:"errorText,omitempty"`
	Reason           string          `json:"reason,omitempty"`
	FinishReason     string          `json:"finishReason,omitempty"`
}

// messageMetadata identifies the run and the session of a message. The AI SDK passes it to the
// application with the message.
type messageMetadata struct {
	RunID     string `json:"runId"`
	SessionID string `json:"sessionId"`
}

// outputValue is the validated structured answer of a run. It is sent in the same form by both
// protocols.
type outputValue struct {
	RunID string          `json:"runId"`
	Data  json.RawMessage `json:"data"`
}

// last returns the data that marks the end of a stream. Clients expect it after the last chunk.
func (aisdk) last() string { return "[DONE]" }

// chunks encodes a piece of a stream as chunks. A piece may become several chunks. Unknown pieces
// become none.
func (aisdk) chunks(piece any) []any {
	switch p := piece.(type) {
	case runStarted:
		at := messageMetadata{p.runID, p.sessionID}
		return []any{
			chunk{Type: "start", MessageID: messagePrefix + id.Suffix(p.runID), MessageMetadata: at},
			chunk{Type: "start-step"},
			chunk{Type: "data-run", ID: p.runID, Data: at},
		}
	case textBegun:
		return []any{chunk{Type: "text-start", ID: textID(p.n)}}
	case textAdded:
		return []any{chunk{Type: "text-delta", ID: textID(p.n), Delta: p.text}}
	case textEnded:
		return []any{chunk{Type: "text-end", ID: textID(p.n)}}
	case toolBegun:
		return []any{chunk{
			Type: "tool-input-available", ToolCallID: p.id, ToolName: p.call.Name, Input: p.call.Input, Dynamic: true, ProviderExecuted: true,
		}}
	case toolEnded:
		return []any{toolOutcome(p)}
	case cited:
		return sourceChunks(p)
	case outputAdded:
		return []any{chunk{Type: "data-output", ID: p.runID, Data: outputValue{p.runID, p.data}}}
	case awaited:
		return []any{chunk{Type: "data-required-action", ID: p.action.ToolCallID, Data: p.action}}
	case ended:
		return endChunks(p.run)
	case failed:
		return []any{chunk{Type: "error", ErrorText: p.message}}
	}
	return nil
}

// messagePrefix is the prefix of a message's id, which also contains the suffix of the run's id.
// The message of a run has the same id each time, so that clients can replace it.
const messagePrefix = "msg_"

// RunOfMessage returns the id of the run to which a message id in the AI SDK's format belongs. It
// returns false for any other id. It does not check that the run exists.
func RunOfMessage(messageID string) (runID string, ok bool) {
	suffix, ok := strings.CutPrefix(messageID, messagePrefix)
	runID = id.Run + "_" + suffix
	return runID, ok && id.Valid(id.Run, runID)
}

// textID returns the id of the n-th text of the message. The id is unique only within the message.
func textID(n int) string { return "text-" + strconv.Itoa(n) }

// toolOutcome returns the chunk with the result or the error of a tool call. A call with a status
// other than completed has failed.
func toolOutcome(p toolEnded) chunk {
	c := chunk{Type: "tool-output-available", ToolCallID: p.id, Output: p.call.Output, Dynamic: true, ProviderExecuted: true}
	if len(c.Output) == 0 {
		c.Output = json.RawMessage("null") // the protocol requires a value
	}

	if p.call.Status == "completed" {
		return c
	}
	c.Type, c.Output, c.ErrorText = "tool-output-error", nil, failure(p.call)
	return c
}

// failure returns the error text of a failed tool call, which is in the member "error" of the
// call's output. If there is no such member, failure returns a general sentence.
func failure(call domain.ToolCall) string {
	var output struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(call.Output, &output) != nil || output.Error == "" {
		return "The call failed."
	}
	return output.Error
}

// sourceChunks returns the chunks for a citation. They include the source only when it is cited for
// the first time. A citation is always sent as data, because the protocol has no field for the
// position of a citation in the text.
func sourceChunks(p cited) []any {
	c := p.citation
	said := chunk{Type: "data-citation", Data: c}
	if !p.first {
		return []any{said}
	}

	source := chunk{Type: "source-url", SourceID: strconv.Itoa(c.ID), URL: c.URL, Title: c.Title}
	// Documents have no public URL, so they are sent as sources of the type document and not as
	// URLs.
	if c.DocumentID != nil || c.URL == "" {
		source.Type, source.URL, source.MediaType = "source-document", "", mediaType(c.Title)
		if source.Title == "" {
			source.Title = "Source " + source.SourceID // the protocol requires a title
		}
	}
	return []any{source, said}
}

// mediaType guesses the media type of a document from its name. The protocol requires a media type,
// but citations do not contain one. Unknown extensions are plain text.
func mediaType(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".pdf":
		return "application/pdf"
	case ".md", ".markdown":
		return "text/markdown"
	case ".html", ".htm":
		return "text/html"
	case ".csv":
		return "text/csv"
	default:
		return "text/plain"
	}
}

// finishReason returns the protocol's reason why an answer ended. It is "stop" for a complete
// answer.
func finishReason(run *domain.Run) string {
	if run.Incomplete() {
		return strings.ReplaceAll(string(*run.FinishReason), "_", "-") // the AI SDK's form, for example "content-filter"
	}
	return string(domain.FinishStop)
}

// endChunks returns the chunks that end the stream of a finished run. Unless the run was cancelled,
// the metadata of the last chunk contains the status and the usage.
func endChunks(run domain.Run) []any {
	if run.Status == domain.RunCancelled {
		return []any{chunk{Type: "abort", Reason: "The run was cancelled."}}
	}
	return []any{
		chunk{Type: "finish-step"},
		chunk{Type: "finish", FinishReason: finishReason(&run), MessageMetadata: struct {
			messageMetadata
			Status domain.RunStatus `json:"status"`
			Usage  domain.Usage     `json:"usage"`
		}{messageMetadata{run.ID, run.SessionID}, run.Status, run.Usage}},
	}
}
