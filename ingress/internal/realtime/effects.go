package realtime

import (
	"encoding/json"
	"time"

	"parley/shared/contract"
	"parley/shared/domain"
)

// Settings are the initial settings of a connection.
type Settings struct {
	SessionID    string
	Model        string          // agent or template
	Voice        string          // the agent's; "": the backend's default
	Session      json.RawMessage // from a client secret; nil: none
	Instructions string          // the session's, until the client sets others
	Expires      time.Time       // the latest time at which the connection ends; zero: not reported
	NewID        func(prefix string) string

	transcription string // the worker's transcription model
}

// Effects are the actions to perform, in the order of the fields: drop queued audio, send events,
// send audio and then commands to the worker, end runs, begin runs, close the connection.
type Effects struct {
	Drop     []string // answers whose queued audio is dropped; audio in Events is kept
	Events   []Event  // to the client
	Audio    []contract.VoiceAudio
	Commands []contract.VoiceCommand
	End      []Ended
	Begin    []Turn
	Close    *Close
}

// Event is an event for the client. An event with an Answer carries audio of that answer, Samples
// long. When the audio has been sent, the caller reports that with [Conversation.Sent].
type Event struct {
	Body    []byte
	Answer  string
	Samples int64
}

// Turn is a run to submit. The caller reports the outcome with Begun or Refused.
type Turn struct {
	Answer       string
	Message      string
	Instructions string
	History      []domain.Exchange // exchanges that the client inserted before the message
}

// Ended is an answer whose later events are not needed. It is returned once for every answer whose
// run was accepted (see Begun), and again when the client corrects how much was played.
type Ended struct {
	Answer string
	RunID  string
	Cancel bool             // the run is not finished and must be cancelled
	Heard  *domain.Playback // how much was played, to be stored; nil: the run's answer is complete
}

// Close ends the connection after Events are sent.
type Close struct {
	Code   int
	Reason string
}

// Resumption contains the settings that open a voice session, and the audio and commands to send
// first, in this order.
type Resumption struct {
	Open     contract.VoiceOpen // without its Line
	Audio    []contract.VoiceAudio
	Commands []contract.VoiceCommand
}
