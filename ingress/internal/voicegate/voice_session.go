package voicegate

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"time"

	"parley/ingress/internal/realtime"
	"parley/shared/bus"
	"parley/shared/contract"
)

const (
	maxLosses = 5 // number of losses within lossesIn that ends the connection, because the connection probably causes them
	// Time within which losses are counted.
	lossesIn = 30 * time.Second

	// These constants limit the data that was sent but may not have been processed by the worker. A
	// worker with more unprocessed data would end the voice session. The limits matter after the
	// loss of a session, when minutes of audio may have to be sent again, possibly in very small
	// pieces.
	aheadFrames  = 500
	aheadSamples = 20 * contract.VoiceRate

	queueKept = 64 // number of queued steps for which capacity is kept when the queue is empty
)

// openResult is the result of an attempt to open a voice session. Exactly one field is set.
type openResult struct {
	voiceSession *bus.VoiceSession
	err          error
}

// voiceSession is the voice session of a connection, which may be served by several workers one
// after another. Only the owner of the connection uses it. The owner opens it again with the state
// of the conversation after each loss.
type voiceSession struct {
	sessions Sessions
	signer   Signer
	// ID of the organization.
	org  string
	name string // name of the session for all workers; a worker ends its session when another worker takes over the name
	// Gets the result of the attempt to open a session.
	opened chan openResult
	stop   context.CancelFunc // cancels the attempt to open a session; nil if none is in progress

	at *bus.VoiceSession // the open session; nil if there is none
	// Frames from the worker; nil without a session, closed after a loss.
	frames <-chan contract.VoiceFrame[contract.VoiceReport]
	queue  []step  // data that has not been sent to the worker yet
	ahead  []int64 // end positions of the frames that were sent and that the worker has not processed
	heard  int64   // number of samples that the worker has processed
	// Times of the last losses, the oldest first.
	losses []time.Time
}

// step is one piece of audio or one command for the worker. The field audio is used if the field
// command is nil.
type step struct {
	audio   contract.VoiceAudio
	command *contract.VoiceCommand
}

// newVoiceSession returns a session that is not open. The caller must call open before it sends
// anything. The name of the session is random, so no other connection can take it over.
func newVoiceSession(sessions Sessions, signer Signer, org string) *voiceSession {
	return &voiceSession{sessions: sessions, signer: signer, org: org, name: rand.Text(), opened: make(chan openResult, 1)}
}

// open starts to open a session with the state in the argument from. Audio and commands that are
// sent afterwards follow this state. The argument within is the timeout of the attempt. Only one
// attempt may be in progress. The result arrives on the channel opened, and the owner passes it to
// up or failed. open returns an error if the state has no JSON form.
func (v *voiceSession) open(ctx context.Context, from realtime.Resumption, within time.Duration) error {
	from.Open.Line, from.Open.OrganizationID = v.name, v.org
	body, err := json.Marshal(from.Open)
	if err != nil {
		return err
	}
	claims, err := json.Marshal(contract.VoiceClaims{
		OrganizationID: v.org, Kind: contract.KindVoice, Line: v.name, Expires: time.Now().Add(within).UTC(),
	})
	if err != nil {
		return err
	}

	// The new session begins with the current state of the conversation, so data queued for the
	// previous session is dropped.
	v.queue, v.ahead, v.heard = nil, nil, from.Open.Position
	ctx, v.stop = context.WithTimeout(ctx, within)
	go func() {
		at, err := v.sessions.Open(ctx, v.signer.Sign(claims, body), body)
		v.opened <- openResult{at, err}
	}()
	v.send(from.Audio, from.Commands)
	return nil
}

// failed records that the session could not be opened.
func (v *voiceSession) failed() {
	v.stop()
	v.stop = nil
}

// up begins to use a session that was opened, and sends the audio and commands with which the
// session begins. The timeout of the attempt no longer applies.
func (v *voiceSession) up(came openResult) {
	v.stop()
	v.stop = nil
	v.at, v.frames = came.voiceSession, came.voiceSession.Frames()
	v.pump()
}

// send sends audio and commands to the worker. If that is not possible now, it queues them for this
// worker or the next worker. The data is not copied, so it must not change.
func (v *voiceSession) send(audio []contract.VoiceAudio, commands []contract.VoiceCommand) {
	if v.at == nil && v.stop == nil {
		return // the state with which the next session begins will contain this data
	}
	for _, a := range audio {
		v.queue = append(v.queue, step{audio: a})
	}
	for i := range commands {
		v.queue = append(v.queue, step{command: &commands[i]})
	}
	v.pump()
}

// listened records the position up to which the worker has processed the audio. More audio may be
// sent then. Positions never decrease.
func (v *voiceSession) listened(heard int64) {
	v.heard = max(v.heard, heard)

	// The worker processes frames in order, so the processed ones are at the beginning of the list.
	n := 0
	for n < len(v.ahead) && v.ahead[n] <= v.heard {
		n++
	}
	v.ahead = v.ahead[n:]
	v.pump()
}

// pump sends as much of the queue as the limits allow. If sending fails, the session is lost, and
// the channel of its frames is closed. Audio and commands keep their order. Commands do not count
// towards the limits, but wait until the audio before them was sent.
func (v *voiceSession) pump() {
	n := 0
	for v.at != nil && n < len(v.queue) && !v.full() {
		s := v.queue[n]
		n++
		if s.command != nil {
			_ = v.at.Send(*s.command)
			continue
		}
		v.ahead = append(v.ahead, s.audio.At+int64(len(s.audio.PCM)/2))
		_ = v.at.Audio(s.audio.At, s.audio.PCM)
	}
	if v.queue = slices.Delete(v.queue, 0, n); len(v.queue) == 0 && cap(v.queue) > queueKept {
		v.queue = nil
	}
}

// full reports whether the worker must process data before more may be sent.
func (v *voiceSession) full() bool {
	n := len(v.ahead)
	return n >= aheadFrames || n > 0 && v.ahead[n-1]-v.heard >= aheadSamples
}

// leave ends the session. An attempt to open a session continues. Queued data is kept until the
// next open.
func (v *voiceSession) leave() {
	if v.at != nil {
		v.at.Close()
	}
	v.at, v.frames = nil, nil
}

// tooOften counts a lost session. It returns true if too many sessions were lost. Then no other
// session may be opened. Only the last maxLosses losses count.
func (v *voiceSession) tooOften(now time.Time) bool {
	v.losses = append(v.losses, now)
	if len(v.losses) > maxLosses {
		v.losses = v.losses[1:]
	}
	return len(v.losses) == maxLosses && now.Sub(v.losses[0]) < lossesIn
}

// close ends the session and prevents another from being opened. It waits for an attempt in
// progress, which it cancels. The session cannot be used afterwards.
func (v *voiceSession) close() {
	v.leave()
	if v.stop == nil {
		return
	}
	v.stop()

	// The attempt to open a session is cancelled, but a session may already be open.
	if came := <-v.opened; came.voiceSession != nil {
		came.voiceSession.Close()
	}
}
