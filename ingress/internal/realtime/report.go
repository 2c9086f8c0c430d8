package realtime

import (
	"strings"
	"time"

	"parley/ingress/internal/openaiapi"
	"parley/shared/contract"
	"parley/shared/truncate"
)

// Report handles a report from the voice worker. It ignores unknown types and reports about answers
// and items that no longer exist, because a report may arrive late. Reports must come from the
// current worker.
func (c *Conversation) Report(now time.Time, r contract.VoiceReport) Effects {
	var e effects
	switch r.Type {
	case contract.VoiceAlive:
		reportAlive(c, r)
		c.release(&e)
	case contract.VoiceStarted:
		speechStarted(c, &e, now, r)
	case contract.VoiceStopped:
		speechStopped(c, &e, now, r)
	case contract.VoiceTranscript:
		utteranceTranscribed(c, &e, now, r)
	case contract.VoiceSegment:
		segmentSpoken(c, &e, r)
	case contract.VoiceSaid:
		// A report about an earlier answer is ignored.
		if a := c.saying(r.Answer); a != nil && a.last {
			c.said(&e, now, a)
		}
	case contract.VoiceFailed:
		taskFailed(c, &e, now, r)
	}
	return e
}

// reportAlive records the worker's progress, and drops the samples that no worker can need any
// more. The numbers never decrease and never exceed the end of the input.
func reportAlive(c *Conversation, r contract.VoiceReport) {
	in := &c.input
	in.heard = max(in.heard, min(r.Heard, in.end))
	in.needs = max(in.needs, min(r.Needs, in.end))
	in.prune(c.session.listening())
}

// speechStarted handles the beginning of speech. It ignores speech that was already committed. It
// also ignores speech in progress that a new worker has detected again. If the session allows it,
// speech interrupts the response in progress and stops the audio of the previous response. The
// client gets speech_started.
func speechStarted(c *Conversation, e *effects, now time.Time, r contract.VoiceReport) {
	in := &c.input
	switch _, known := c.items.find(r.Item); {
	case !c.session.listening() || r.From < in.behind || known != nil || r.Item == "" || len(r.Item) > maxName:
		return
	// A new worker has detected the speech in progress again, and gives it another id.
	case in.speech != nil:
		in.speech.line = r.Item
		return
	}
	c.active = now

	in.speech = &speech{item: r.Item, line: r.Item, from: min(max(r.From, in.start), in.end)}
	c.emit(e, "input_audio_buffer.speech_started", startedEvent{r.Item, in.ms(in.speech.from)})

	// If interrupt_response is false, the answer continues while the user speaks.
	if !c.session.interrupts() {
		return
	}
	c.silence(e, now)
	if c.now != nil {
		c.interrupt(e, now, reasonTurn)
	}
}

// speechStopped handles the end of speech, and creates an item from the speech. The item waits for
// its transcript. If the session requests responses to turns, a response follows the transcript.
func speechStopped(c *Conversation, e *effects, now time.Time, r contract.VoiceReport) {
	in := &c.input
	if in.speech == nil || in.speech.line != r.Item {
		return
	}
	c.active = now

	// The worker may report a position after the last received sample.
	was := *in.speech
	to := min(max(r.To, was.from), in.end)
	in.speech, in.start = nil, max(in.start, to)
	c.emit(e, "input_audio_buffer.speech_stopped", stoppedEvent{was.item, in.ms(to)})
	c.committed(e, span{item: was.item, line: was.line, from: was.from, to: to, auto: c.session.listening() && c.session.detection.create})
	c.release(e)
}

// committed creates an item from an utterance.
func (c *Conversation) committed(e *effects, utterance span) {
	c.input.waits = append(c.input.waits, utterance)
	it := &item{id: utterance.item, role: "user", status: statusCompleted, parts: []part{{kind: partInputAudio}}, waiting: true}
	c.emit(e, "input_audio_buffer.committed", committedEvent{it.id, c.items.last()})
	c.added(e, len(c.items), it, true)
}

// utteranceTranscribed handles the transcript of an utterance. It may begin a response. The
// transcript of a deleted item is discarded.
func utteranceTranscribed(c *Conversation, e *effects, now time.Time, r contract.VoiceReport) {
	utterance, it := removeUtterance(c, r.Item)
	if it == nil {
		return
	}
	c.active = now

	text := clean(r.Text)
	at := it.transcript(text)
	c.emit(e, "conversation.item.input_audio_transcription.completed", transcriptEvent{
		ItemID: it.id, ContentIndex: at, Transcript: text, Usage: durationUsage{"duration", seconds(utterance.to - utterance.from)},
	})
	// An utterance without words, such as noise, needs no response.
	if utterance.auto && text != "" {
		c.due = true
	}
	c.next(e, now)
}

// clean returns a transcript in the form in which it can be stored as a message. It replaces
// invalid UTF-8 with U+FFFD, and removes U+0000 and white space at the ends. It truncates the text
// to maxMessage characters.
func clean(text string) string {
	text = strings.TrimSpace(strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", ""))
	return truncate.Runes(text, maxMessage)
}

// removeUtterance removes a pending utterance. It returns the utterance and its item. The item is
// nil if the utterance was not pending or the item was deleted. The samples of the utterance are no
// longer kept afterwards.
func removeUtterance(c *Conversation, line string) (span, *item) {
	utterance, waited := c.input.remove(func(w span) bool { return w.line == line })
	if !waited {
		return span{}, nil
	}
	c.input.prune(c.session.listening())
	_, it := c.items.find(utterance.item)
	return utterance, it
}

// transcript sets the transcript of the audio in an item. It returns the index of the part with the
// audio. An empty text means that the audio has no words, or that transcription failed.
func (i *item) transcript(text string) (at int) {
	i.waiting = false
	for at := range i.parts {
		if i.parts[at].kind == partInputAudio {
			i.parts[at].text, i.parts[at].heardBy = text, true
			return at
		}
	}
	return 0
}

// saying returns the answer with this name, or nil if the worker is not speaking it. Reports about
// previous answers return nil, so they change nothing.
func (c *Conversation) saying(name string) *answer {
	if a := c.now; a != nil && a.id == name && a.begun && !a.text {
		return a
	}
	return nil
}

// Audio handles speech from the worker. It sends the audio to the client, and before it the
// transcript of the audio. Audio of an answer that is not being spoken is dropped. The fields Start
// and End of audio are offsets in the text of the answer, in bytes.
func (c *Conversation) Audio(now time.Time, audio contract.VoiceAudio) Effects {
	var e effects
	a := c.saying(audio.Answer)
	if a == nil || len(audio.PCM) == 0 {
		return e
	}
	c.active = now

	// The client gets each part of the transcript when the audio for that part begins.
	g := a.spoken.segment(audio.Start, audio.End)
	g.samples += int64(len(audio.PCM)) / sampleBytes
	c.transcript(&e, a, g.end)
	e.Events = append(e.Events, c.audioEvent(a, audio.PCM))
	return e
}

// segmentSpoken handles the end of a spoken segment of an answer. It ignores a segment that was
// already reported.
func segmentSpoken(c *Conversation, e *effects, r contract.VoiceReport) {
	a := c.saying(r.Answer)
	if a == nil {
		return
	}
	if done, _ := a.spoken.done(); r.End <= done {
		return // the segment was already ended
	}
	g := a.spoken.segment(r.Start, r.End)
	g.whole = true
	c.transcript(e, a, g.end)
}

// taskFailed handles a failed transcription, a failed synthesis, or a setting that the worker
// rejects. The item or the answer of the report names the task. If the report names neither, the
// worker has rejected a setting.
func taskFailed(c *Conversation, e *effects, now time.Time, r contract.VoiceReport) {
	why := contract.VoiceFailure{Code: codeUnavailable, Message: "the voice worker failed"}
	if r.Failure != nil {
		why = *r.Failure
	}
	switch {
	case r.Item != "":
		_, it := removeUtterance(c, r.Item)
		if it == nil {
			return
		}
		c.emit(e, "conversation.item.input_audio_transcription.failed", untranscribedEvent{
			ItemID: it.id, ContentIndex: it.transcript(""),
			Error: errorShown{Type: openaiapi.TypeServer, Code: why.Code, Message: why.Message},
		})
		c.next(e, now)
	case r.Answer != "":
		answerUnspoken(c, e, now, r.Answer, why)
	default:
		configFailed(c, e, why)
	}
}

// answerUnspoken handles an answer that cannot be spoken. The client gets the rest of the answer as
// text, and then the response fails. The session contains the whole answer. If the text is already
// complete, the response ends here.
func answerUnspoken(c *Conversation, e *effects, now time.Time, name string, why contract.VoiceFailure) {
	a := c.saying(name)
	if a == nil {
		return
	}
	a.mute = &why
	c.transcript(e, a, len(a.spoken.text))
	// If the text is still incomplete, the response fails later, when the text is complete.
	if a.last {
		c.abandon(e, now, openaiapi.Error{Type: openaiapi.TypeServer, Code: why.Code, Message: why.Message}, false)
	}
}

// configFailed resets the setting that the worker rejects, so that the session can continue. The
// client gets an error event and then session.updated. An unknown setting is only reported.
func configFailed(c *Conversation, e *effects, why contract.VoiceFailure) {
	said := errorShown{Type: openaiapi.TypeInvalid, Code: why.Code, Message: why.Message}
	switch why.Param {
	case "voice":
		said.Param = new("session.audio.output.voice")
		dropVoice(c)
	case "language":
		said.Param = new("session.audio.input.transcription.language")
		c.session.language = ""
	default:
		said.Type = openaiapi.TypeServer
		c.emit(e, "error", errorEvent{said})
		return
	}
	c.emit(e, "error", errorEvent{said})

	c.configure(e)
	c.emit(e, "session.updated", sessionEvent{c.shown()})
}

// dropVoice removes the voice setting that is in use: that of the response, otherwise that of the
// session, and otherwise that of the agent. An empty voice means the default of the worker.
func dropVoice(c *Conversation) {
	switch {
	case c.now != nil && c.now.voice != "":
		c.now.voice = ""
	case c.session.voice != c.set.Voice:
		c.session.voice = c.set.Voice
	default:
		c.session.voice, c.set.Voice = "", ""
	}
}
