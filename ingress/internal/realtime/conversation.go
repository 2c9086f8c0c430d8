package realtime

import (
	"time"

	"parley/shared/contract"
)

// Conversation is the state of a voice connection. Only one goroutine may use it. [New] creates it
// for each connection. A Conversation holds no resources, so it need not be closed. All times come
// from the caller.
type Conversation struct {
	eventMaker

	// Settings of the connection; the voice is removed if the worker rejects it.
	set Settings
	// Settings that the client can change.
	session session
	id      string // id of the conversation in the protocol
	// Audio from the client.
	input input
	// Items of the conversation, the oldest first.
	items     items
	heldAudio []heldAudio // audio of items that is not sent to the worker while the user speaks
	now       *answer     // the response in progress
	before    *answer     // the previous answer, whose audio may still be playing
	asked     *ask        // a response that the client requested; it begins once all transcripts have arrived
	due       bool        // whether the user's turn still needs a response
	broken    int         // consecutive messages that were not valid events
	active    time.Time   // time of the last activity, as Idle returns it
}

// heldAudio is the audio of an item that waits to be transcribed. The input of a worker is one
// stream of samples, so the audio waits until the user's speech has ended.
type heldAudio struct {
	item    string
	samples []byte
}

// shown returns the session as the client sees it.
func (c *Conversation) shown() *shownSession { return c.session.shown(c.set) }

// listening reports whether the worker must detect speech in the input.
func (s *session) listening() bool { return s.detection != nil }

// interrupts reports whether speech of the user cancels the response in progress.
func (s *session) interrupts() bool { return s.listening() && s.detection.interrupt }

// Open returns the effects that send the session to the client. transcription is the name of the
// worker's transcription model, or "" if it is unknown. The caller calls it once, when the first
// voice session has begun.
func (c *Conversation) Open(transcription string) Effects {
	c.set.transcription = transcription
	var e effects
	c.emit(&e, "session.created", sessionEvent{c.shown()})
	return e
}

// config returns the configuration of the voice worker for this conversation. It consists of the
// session's settings and of the voice of the response in progress.
func (c *Conversation) config() contract.VoiceConfig {
	config := c.session.config()
	if c.now != nil {
		// A response may have a different voice than the session.
		config.Voice = c.now.voiceIn(&c.session)
	}
	return config
}

// configure sends the current configuration to the worker. The worker uses it for all later speech.
func (c *Conversation) configure(e *effects) {
	e.Commands = append(e.Commands, contract.VoiceCommand{Type: contract.VoiceConfigure, Config: new(c.config())})
}

// Unheard returns the number of input samples that the worker has not processed yet. The caller
// reads no further audio while the number is large.
func (c *Conversation) Unheard() int64 { return c.input.end - c.input.heard }

// Idle returns the time of the last activity. Incoming audio is not activity. The result busy is
// true while speech, a transcription or an answer is in progress. The result since is then the
// current time.
func (c *Conversation) Idle(now time.Time) (since time.Time, busy bool) {
	busy = c.now != nil || c.asked != nil || c.input.speech != nil || c.transcribing() || c.before.playing(now)
	// The time without activity begins when the last activity ends.
	if busy {
		c.active = now
	}
	return c.active, busy
}

// Sent records that samples of an answer's audio have been sent to the client. The caller calls it
// after each event with audio was written to the connection. The numbers determine how much of an
// answer counts as played. An unknown name is ignored.
func (c *Conversation) Sent(now time.Time, name string, samples int64) {
	a := c.answer(name)
	if a == nil {
		return
	}
	p := &a.spoken.playhead
	if p.sent == 0 && a == c.now && c.before.playing(now) { // clients play answers one after another
		p.asOf = now.Add(c.before.spoken.playhead.left(now))
	}
	p.more(now, samples)
}

// answer returns the answer with this name, or nil if the conversation no longer keeps it. It
// searches the response in progress, the previous answer and the items.
func (c *Conversation) answer(name string) *answer {
	switch {
	case c.now != nil && c.now.id == name:
		return c.now
	case c.before != nil && c.before.id == name:
		return c.before
	}
	if _, it := c.items.find(name); it != nil {
		return it.answer
	}
	return nil
}

// Resume returns the settings for a new voice session, and the audio and commands to send first. It
// discards the state of the previous worker. The caller calls it when the worker is lost, and then
// opens a session with another worker. Speech in progress and pending utterances are transcribed by
// the new worker. The item ids that the client knows do not change.
func (c *Conversation) Resume() Resumption {
	in := &c.input
	in.forsake()

	// The new worker has processed no samples, so it gets all samples that were kept.
	low := in.firstKept(c.session.listening())
	in.heard = low
	out := Resumption{Open: contract.VoiceOpen{Config: c.config(), Position: low}, Audio: in.frames(low, in.end)}

	// The new worker must use the item ids that the client knows for the speech in progress and the
	// pending utterances.
	if in.speech != nil {
		in.speech.line = in.speech.item
		out.Open.Speech = &contract.VoiceSpeech{Item: in.speech.item, From: in.speech.from}
	}

	for i := range in.waits {
		w := &in.waits[i]
		w.line = w.item
		in.behind = max(in.behind, w.to)
		out.Commands = append(out.Commands, contract.VoiceCommand{Type: contract.VoiceCommit, Item: w.item, From: w.from, To: w.to})
	}

	out.Commands = c.now.resay(out.Commands)
	return out
}

// resay appends the commands that make a new worker speak the part of an answer that was not spoken
// yet. It appends nothing for a text answer, for an answer without text, and after synthesis has
// failed.
func (a *answer) resay(commands []contract.VoiceCommand) []contract.VoiceCommand {
	if a == nil || a.text || a.mute != nil || len(a.spoken.text) == 0 {
		return commands
	}
	done, skip := a.spoken.done()
	// All text up to here was spoken. Further text is sent to the worker when it arrives.
	if done == len(a.spoken.text) && !a.last {
		return commands
	}
	return a.say(commands, done, skip)
}
