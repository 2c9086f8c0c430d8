package realtimeclient

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Answer contains the parts of a response as the client received them. Response is nil until the
// response has ended.
type Answer struct {
	Response   *Response // the response from its response.done event
	ItemID     string
	PCM        []byte
	Transcript string // concatenated deltas of the transcript
	Text       string // concatenated deltas of the text, if the response has no audio
	Frames     []Frame
	Events     []Event
}

// Frame is one delta of audio with its arrival time. Frames are in the order of arrival.
type Frame struct {
	At    time.Time
	Bytes int
}

// ErrFault reports that the service sent an error event instead of a response.
var ErrFault = errors.New("the service sent an error event")

// Answer reads events up to the end of the next response. If an error event arrives, it returns an
// error that wraps ErrFault.
func (c *Client) Answer(ctx context.Context) (Answer, error) {
	var a Answer
	for {
		e, err := c.Next(ctx)
		if err != nil {
			return a, fmt.Errorf("waiting for an answer after %s: %w", Types(a.Events), err)
		}
		if err := a.take(e); err != nil || a.Response != nil {
			return a, err
		}
	}
}

// Part reads the next response until at least the given number of bytes of audio have arrived. Rest
// reads the remainder of the response.
func (c *Client) Part(ctx context.Context, bytes int) (Answer, error) {
	var a Answer
	for len(a.PCM) < bytes {
		e, err := c.Next(ctx)
		if err != nil {
			return a, fmt.Errorf("waiting for an answer after %s: %w", Types(a.Events), err)
		}
		if err := a.take(e); err != nil {
			return a, err
		}
		if a.Response != nil {
			return a, fmt.Errorf("the answer ended after %d of %d bytes: %s", len(a.PCM), bytes, a.Response.Status)
		}
	}
	return a, nil
}

// Rest reads the remainder of a response that Part has begun to read.
func (c *Client) Rest(ctx context.Context, a Answer) (Answer, error) {
	for a.Response == nil {
		e, err := c.Next(ctx)
		if err != nil {
			return a, fmt.Errorf("waiting for the rest of an answer after %s: %w", Types(a.Events), err)
		}
		if err := a.take(e); err != nil {
			return a, err
		}
	}
	return a, nil
}

// take adds an event to the answer. For an error event, it returns an error that wraps ErrFault.
func (a *Answer) take(e Event) error {
	a.Events = append(a.Events, e)
	switch e.Type {
	case "error":
		return fmt.Errorf("%w: %s", ErrFault, e.Raw)
	case "response.output_audio.delta":
		pcm, err := e.PCM()
		if err != nil {
			return err
		}
		a.ItemID = e.ItemID
		a.PCM = append(a.PCM, pcm...)
		a.Frames = append(a.Frames, Frame{At: e.At, Bytes: len(pcm)})
	case "response.output_audio_transcript.delta":
		a.Transcript += e.Delta
	case "response.output_text.delta":
		a.Text += e.Delta
	case "response.done":
		a.Response = e.Response
	}
	return nil
}

// Longest returns the longest pause between two audio deltas and the number of deltas that arrived
// before the pause.
func (a *Answer) Longest() (pause time.Duration, behind int) {
	for i := 1; i < len(a.Frames); i++ {
		if d := a.Frames[i].At.Sub(a.Frames[i-1].At); d > pause {
			pause, behind = d, i
		}
	}
	return pause, behind
}

// StarvedTime returns the total time of silence for a listener whose player begins at the first
// delta and must wait whenever a delta arrives late.
func (a *Answer) StarvedTime() time.Duration {
	if len(a.Frames) == 0 {
		return 0
	}

	var starved time.Duration
	until := a.Frames[0].At // time at which the audio received so far has been played
	for _, f := range a.Frames {
		if f.At.After(until) {
			starved += f.At.Sub(until)
			until = f.At
		}
		until = until.Add(Lasts(f.Bytes))
	}
	return starved
}
