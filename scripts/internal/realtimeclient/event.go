package realtimeclient

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Event is an event from the service, with the fields that tests use. Raw is its complete JSON.
type Event struct {
	At  time.Time       `json:"-"`
	Raw json.RawMessage `json:"-"`

	Type       string    `json:"type"`
	ItemID     string    `json:"item_id"`
	ResponseID string    `json:"response_id"`
	Delta      string    `json:"delta"`
	Transcript string    `json:"transcript"`
	StartMS    int       `json:"audio_start_ms"`
	EndMS      int       `json:"audio_end_ms"`
	Session    *Session  `json:"session"`
	Item       *Item     `json:"item"`
	Response   *Response `json:"response"`
	Error      *Error    `json:"error"`
}

// Session is the session that an event contains. Only its ID is read.
type Session struct {
	ID string `json:"id"`
}

// Item is the conversation item that an event contains.
type Item struct {
	ID      string `json:"id"`
	Role    string `json:"role"`
	Content []struct {
		Type       string `json:"type"`
		Text       string `json:"text"`
		Transcript string `json:"transcript"`
	} `json:"content"`
}

// Response is the response that an event contains.
type Response struct {
	ID      string  `json:"id"`
	Status  string  `json:"status"`
	Output  []*Item `json:"output"`
	Details *struct {
		Reason string `json:"reason"`
		Error  *Error `json:"error"`
	} `json:"status_details"`
	Metadata map[string]string `json:"metadata"`
}

// Error is the error that an event contains.
type Error struct {
	Type    string  `json:"type"`
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Param   *string `json:"param"`
	EventID *string `json:"event_id"`
}

// Reason returns the reason for the response's status, or "" if there is none.
func (r *Response) Reason() string {
	if r.Details == nil {
		return ""
	}
	return r.Details.Reason
}

// PCM decodes the audio in a response.output_audio.delta: 16-bit samples at 24 kHz.
func (e *Event) PCM() ([]byte, error) {
	pcm, err := base64.StdEncoding.DecodeString(e.Delta)
	if err != nil {
		return nil, fmt.Errorf("reading audio: %w", err)
	}
	return pcm, nil
}

// Types lists the types of events in order. Consecutive events of the same type are listed once.
func Types(events []Event) string {
	var types []string
	for _, e := range events {
		if len(types) == 0 || types[len(types)-1] != e.Type {
			types = append(types, e.Type)
		}
	}
	return strings.Join(types, " ")
}
