package realtime

import (
	"time"

	"parley/shared/contract"
)

// Conversation is a connection's state. It is one goroutine's.
type Conversation struct {
	teller

	set     Settings
	session session
	id      string
	input   input
	items   items
	held    []held  // audio of items, until the user has said what he is saying
	now     *answer // the response under way
	before  *answer // the one before: its audio may still be playing
	asked   *ask    // for a response, once all transcripts are there
	due     bool    // a response to what was said
	broken  int     // messages in a row that were no events
	active  time.Time
}

// held is an item's audio that is to be transcribed.
type held struct {
	item    string
	samples []byte
}

func (c *Conversation) shown() *shownSession { return c.session.shown(c.set) }

// listening reports whether the worker finds speech in the input.
func (s *session) listening() bool { return s.detection != nil }

// interrupts reports whether speech cancels the response in progress.
func (s *session) interrupts() bool { return s.listening() && s.detection.interrupt }

// Open tells the client of the session.
func (c *Conversation) Open() Effects {
	var e effects
	c.tell(&e, "session.created", sessionEvent{c.shown()})
	return e
}

// config is how the line listens and speaks now.
func (c *Conversation) config() contract.VoiceConfig {
	config := c.session.config()
	if c.now != nil {
		config.Voice = c.now.voiceIn(&c.session)
	}
	return config
}

func (c *Conversation) configure(e *effects) {
	e.Commands = append(e.Commands, contract.VoiceCommand{Type: contract.VoiceConfigure, Config: new(c.config())})
}

// Unheard is how many samples the worker has not listened to yet.
func (c *Conversation) Unheard() int64 { return c.input.end - c.input.heard }

// Idle tells since when nothing has happened but audio that came in, and whether something goes on: speech, its transcription, an answer.
func (c *Conversation) Idle(now time.Time) (since time.Time, busy bool) {
	busy = c.now != nil || c.asked != nil || c.input.speech != nil || c.transcribing() || c.before.playing(now)
	if busy {
		c.active = now
	}
	return c.active, busy
}

// Sent says that so many samples of an answer were sent to the client.
func (c *Conversation) Sent(now time.Time, name string, samples int64) {
	a := c.answer(name)
	if a == nil {
		return
	}
	p := &a.spoken.playhead
	if p.sent == 0 && a == c.now && c.before.playing(now) { // clients play one after the other
		p.asOf = now.Add(c.before.spoken.playhead.left(now))
	}
	p.more(now, samples)
}

// answer gives the answer of that name, as long as it is known.
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

// Resume gives what a line is opened with, and what is sent over it first. The worker that had the line before is forgotten.
func (c *Conversation) Resume() Resumption {
	in := &c.input
	in.forsake()
	low := in.floor(c.session.listening())
	in.heard = low
	out := Resumption{Open: contract.VoiceOpen{Config: c.config(), Position: low}, Audio: in.frames(low, in.end)}
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

// resay has a worker say what is left of an answer.
func (a *answer) resay(commands []contract.VoiceCommand) []contract.VoiceCommand {
	if a == nil || a.text || a.mute != nil || len(a.spoken.text) == 0 {
		return commands
	}
	done, skip := a.spoken.done()
	if done == len(a.spoken.text) && !a.last {
		return commands
	}
	return a.say(commands, done, skip)
}
