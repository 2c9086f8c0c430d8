package realtime

import (
	"encoding/json"
	"time"

	"parley/shared/contract"
	"parley/shared/domain"
)

// Settings are what a connection begins with.
type Settings struct {
	SessionID    string
	Model        string          // agent or template
	Voice        string          // the agent's; "": the backend's own
	Session      json.RawMessage // what a client secret set, nil for nothing
	Instructions string          // of the session, until the client sets others
	Expires      time.Time       // when the connection ends at the latest; zero: not told
	NewID        func(prefix string) string
}

// Effects are what is to be done, in the order of the fields: queued audio dropped, events sent, audio and then commands sent to the
// worker, runs ended, runs begun, and the connection closed.
type Effects struct {
	Drop     []string // answers whose queued audio is not to be sent any more: of what is queued already, not of Events
	Events   []Event  // to the client
	Audio    []contract.VoiceAudio
	Commands []contract.VoiceCommand
	End      []Ended
	Begin    []Turn
	Close    *Close
}

// Event is an event for the client. One with an Answer is audio of it, Samples long: its sending is told by [Conversation.Sent].
type Event struct {
	Body    []byte
	Answer  string
	Samples int64
}

// Turn is a run to submit; Begun or Refused is told of it.
type Turn struct {
	Answer       string
	Message      string
	Instructions string
	History      []domain.Exchange // what the client put before the message
}

// Ended is an answer of which no more events are wanted. It is told once for every answer that was Begun, and again when the client
// corrects what was heard.
type Ended struct {
	Answer string
	RunID  string
	Cancel bool          // the run is open: cancel it
	Heard  *domain.Heard // to be kept; nil: the answer is what the run says
}

// Close ends the connection, once Events are sent.
type Close struct {
	Code   int
	Reason string
}

// Resumption is what a line is opened with, and what is sent over it first, the audio before the commands.
type Resumption struct {
	Open     contract.VoiceOpen // without its Line
	Audio    []contract.VoiceAudio
	Commands []contract.VoiceCommand
}
