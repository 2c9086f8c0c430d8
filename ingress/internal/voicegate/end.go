package voicegate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/coder/websocket"

	"parley/ingress/internal/realtime"
	"parley/shared/apierr"
)

// end describes how a connection ends. It contains the reason for metrics and logs, the last error
// event, and the close frame.
type end struct {
	// Label of the metric, and field of the log.
	reason        string
	code, message string // code and message of the error event; "": no event
	// Close frame; code 0: the client has disconnected and gets none.
	how   realtime.Close
	alone bool // whether queued events are dropped, because sending them takes too long or is not allowed
}

// closing returns a close frame. A close frame has room for 123 bytes of reason. The reasons are
// constants and short enough.
func closing(code websocket.StatusCode, reason string) realtime.Close {
	return realtime.Close{Code: int(code), Reason: reason}
}

// These are the ways in which a connection can end. If an entry has a code and a message, the
// client receives them in an error event before the close frame.
var (
	endClient = end{reason: "client"} // the client has sent a close frame
	endGone   = end{reason: "gone"}   // the client has disconnected without a close frame
	endSlow   = end{
		"slow", "client_too_slow", "the client reads its messages too slowly",
		closing(websocket.StatusPolicyViolation, "the client reads its messages too slowly"), true,
	}
	endMute = end{
		"mute", "client_unresponsive", "the client does not answer pings",
		closing(websocket.StatusPolicyViolation, "the client does not answer pings"), true,
	}
	endRevoked = end{
		"revoked", "credential_revoked", "the credential of this connection is no longer valid",
		closing(websocket.StatusPolicyViolation, "the credential is no longer valid"), true,
	}
	endFlood = end{
		"flood", "rate_limit_exceeded",
		fmt.Sprintf("too many events: besides audio, the limit is %d per second, with bursts of %d", eventRate, eventBurst),
		closing(websocket.StatusPolicyViolation, "too many events"), true,
	}
	endTooLarge = end{
		"too_large", "message_too_large", fmt.Sprintf("a message must have at most %d bytes", maxMessage),
		closing(websocket.StatusMessageTooBig, "the message is too large"), true,
	}
	endBinary = end{
		"binary", "binary_message", "messages must be text: send audio in events, as base64",
		closing(websocket.StatusUnsupportedData, "messages must be text"), true,
	}
	endProtocol = end{
		"protocol", "protocol_error", "invalid WebSocket frame",
		closing(websocket.StatusProtocolError, "invalid WebSocket frame"), true,
	}
	endExpired = end{
		"expired", "session_expired", "the connection has reached its maximum duration; connect again with the same session_id to continue",
		closing(websocket.StatusNormalClosure, "the connection has reached its maximum duration"), false,
	}
	endIdle = end{
		"idle", "session_idle", "nothing was said for too long; connect again with the same session_id to continue",
		closing(websocket.StatusNormalClosure, "nothing was said for too long"), false,
	}
	endDrain = end{
		"drain", "service_restarting", "the service is restarting; connect again with the same session_id to continue",
		closing(websocket.StatusServiceRestart, "the service is restarting"), false,
	}
	endNoWorker = end{
		"no_worker", "voice_unavailable", "no speech service is available; try again later",
		closing(websocket.StatusTryAgainLater, "voice is unavailable"), false,
	}
)

// endFor returns how a connection ends if reading from the client has failed with this error. A
// close frame of the client is no error. An unknown error counts as an invalid frame.
func endFor(err error) end {
	switch {
	case errors.Is(err, errTooLarge):
		return endTooLarge
	case errors.Is(err, errBinary):
		return endBinary
	case websocket.CloseStatus(err) != -1:
		return endClient
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return endGone
	}
	if _, broken := errors.AsType[*net.OpError](err); broken {
		return endGone
	}
	return endProtocol
}

// end records why the connection ends. Only the first call has an effect. The loop of serve ends
// after the current event. The method end sends nothing itself.
func (c *connection) end(why end) {
	if c.outcome == nil {
		c.outcome = &why
	}
}

// close sends the reason to the client, closes the connection, and releases the voice session and
// the turns. It stores how much of an unfinished answer was played. The run of that answer
// continues, as it does whenever a client of a voice connection disconnects. Only the owner calls
// it, at the end of serve.
func (c *connection) close() {
	// Everything that can produce events is closed before the last event is queued, so that no
	// event follows it.
	why, words := c.lastWords()
	close(c.over)
	c.turns.close()
	c.voiceSession.close()
	if why.how.Code == 0 { // the client has disconnected
		_ = c.conn.Close()
	}

	c.out.finish(words, why.alone, why.how)
	late := time.NewTimer(c.gate.times.end)
	defer late.Stop()
	select {
	case <-c.out.done:
	case <-late.C:
		_ = c.conn.Close()
		<-c.out.done
	}
	_ = c.conn.Close()
	_ = c.socket.CloseNow() // the connection is already closed, but this call frees the memory of the library's reader
	c.hold.Stop()
	c.look.Stop()
}

// lastWords stores how much of an unfinished answer was played, and returns the last events for the
// client. After a panic it returns no events and stores nothing.
func (c *connection) lastWords() (end, []realtime.Event) {
	if c.outcome == nil { // the owner has panicked, so the conversation may be inconsistent and is not used
		c.end(end{reason: "failed", how: closing(websocket.StatusInternalError, "")})
		return *c.outcome, nil
	}

	// The conversation returns how much of an unfinished answer was played so far.
	for _, ended := range c.conversation.Gone(c.now()) {
		c.turns.end(ended)
	}
	if c.outcome.code == "" {
		return *c.outcome, nil
	}
	return *c.outcome, []realtime.Event{c.conversation.Error(c.outcome.code, c.outcome.message)}
}

// ping periodically checks that the client responds. The client's response is not read while
// reading is paused. If the client does not respond within times.pong, ping closes c.mute, which
// ends the connection. ping returns after that, or when the connection has ended.
func (c *connection) ping(ctx context.Context) {
	tick := time.NewTicker(c.gate.times.ping)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.over:
			return
		}

		// If reading was paused during the ping, the response may be unread, so its absence does
		// not count.
		stalls := c.stalls.Load()
		within, cancel := context.WithTimeout(ctx, c.gate.times.pong)
		err := c.socket.Ping(within)
		mute := err != nil && within.Err() != nil && stalls%2 == 0 && stalls == c.stalls.Load()
		cancel()
		if mute {
			close(c.mute)
			return
		}
	}
}

// watchPermit periodically checks whether the caller may still use the connection. It runs in a
// goroutine of its own, because a check may be slow. The interval is between shortestLook and
// times.permit. watchPermit does nothing if the admission has no such check. If the caller may no
// longer use the connection, watchPermit closes c.revoked and returns.
func (c *connection) watchPermit() {
	if c.a.Holds == nil || c.a.Look == nil {
		return
	}
	for {
		now := time.Now()
		timer := time.NewTimer(max(shortestLook, c.a.Look(now.Add(c.gate.times.permit)).Sub(now)))
		select {
		case <-timer.C:
		case <-c.over:
			timer.Stop()
			return
		}
		if !c.a.Holds(time.Now()) {
			close(c.revoked)
			return
		}
	}
}

// shortestLook is the minimum time between two checks of watchPermit.
const shortestLook = 50 * time.Millisecond

// report counts and logs that the connection has ended. It does not log any content of the
// conversation.
func (c *connection) report() {
	c.gate.metrics.closed.WithLabelValues(c.outcome.reason).Inc()
	c.gate.deps.Log.Info().Str("org_id", c.a.Organization).Str("agent_id", c.a.Conversation.Model).
		Str("session_id", c.a.Conversation.SessionID).Str("reason", c.outcome.reason).Int("close", c.outcome.how.Code).
		Dur("took_ms", time.Since(c.began)).Int("answers", c.answers).Int("lines_lost", c.lost).Msg("voice connection")
}

// coded returns the error that the client sees. An error without a code becomes unavailable,
// without details.
func coded(err error) *apierr.Error {
	if known, ok := errors.AsType[*apierr.Error](err); ok {
		return known
	}
	return apierr.Wrap(apierr.Unavailable, err, "the run cannot be started; try again")
}
