package realtime

import (
	"encoding/json"
	"time"

	"parley/shared/contract"
	"parley/shared/domain"
)

// Settings contains the initial settings of a connection. The caller creates it from the agent and
// the client secret.
type Settings struct {
	// ID of Parley's session, in which the runs take place.
	SessionID    string
	Model        string          // id of the agent or template
	Voice        string          // voice of the agent; "": the default of the backend
	Session      json.RawMessage // settings from a client secret; nil: none
	Instructions string          // instructions of the session, until the client sets others
	Expires      time.Time       // the latest time at which the connection ends; zero: not reported
	// Returns a new id with a prefix, for events, items and responses.
	NewID func(prefix string) string

	transcription string // name of the worker's transcription model
}

// Effects are the actions to perform, in the order of the fields: drop queued audio, send events,
// send audio and then commands to the worker, end runs, begin runs, close the connection. The
// methods of a [Conversation] return them.
type Effects struct {
	Drop   []string // answers whose queued audio is dropped; audio in Events is sent nevertheless
	Events []Event  // events to send to the client
	// Samples for the worker.
	Audio []contract.VoiceAudio
	// Commands for the worker; each refers only to audio that was sent before.
	Commands []contract.VoiceCommand
	// Answers that need no further events.
	End []Ended
	// Runs to submit.
	Begin []Turn
	// End of the connection; nil: it stays open.
	Close *Close
}

// Event is an event for the client. If Answer is set, the event contains audio of this answer, and
// Samples is the number of samples. After the event was sent, the caller reports the audio with
// [Conversation.Sent].
type Event struct {
	// JSON of the event.
	Body []byte
	// Name of the answer whose audio the event contains; empty: no audio.
	Answer string
	// Number of samples; 0: no audio.
	Samples int64
}

// Turn is a run to submit. The caller reports the result with Begun or Refused.
type Turn struct {
	// Name of the answer.
	Answer string
	// Text to answer; never empty.
	Message string
	// Instructions in addition to those of the agent; empty: none.
	Instructions string
	History      []domain.Exchange // exchanges that the client has inserted before the message
}

// Ended names an answer whose further events are not needed. It is returned for every answer whose
// run was accepted (see Begun). It is returned again if the client later corrects how much of the
// answer was played.
type Ended struct {
	Answer string
	RunID  string
	Cancel bool             // whether the run must be cancelled, because it has not finished
	Heard  *domain.Playback // the played part, to be stored; nil: the run's answer counts as complete
}

// Close ends the connection after the Events of the same Effects are sent.
type Close struct {
	// Status code of the WebSocket protocol.
	Code int
	// Text for the client.
	Reason string
}

// Resumption contains the settings of a new voice session and the data to send first: the audio,
// and then the commands.
type Resumption struct {
	Open contract.VoiceOpen // settings of the voice session; Line is not set
	// Kept samples that the new worker must process.
	Audio []contract.VoiceAudio
	// Commits of pending utterances, and text to speak.
	Commands []contract.VoiceCommand
}
