package voice

import (
	"context"

	"parley/shared/contract"
)

// maxRead is the maximum number of bytes of the frames that wait for a session. When a session
// moves to this worker, the ingress immediately sends all audio that it has kept. That audio is
// larger than the buffer of the bus.
const maxRead = 16 << 20

// frame is a message from the ingress: audio or a command.
type frame = contract.VoiceFrame[contract.VoiceCommand]

// read receives frames from the bus as soon as they arrive, and delivers them in order to the
// session. It returns a channel that is closed when ctx ends, when the channel frames is closed, or
// when more than maxRead bytes wait.
func read(ctx context.Context, frames <-chan frame) <-chan frame {
	out := make(chan frame)
	go func() {
		defer close(out)
		var waiting []frame
		bytes := 0
		for {
			// If no frame is waiting, next is nil, and the select never chooses the case that sends
			// to next.
			var next chan<- frame
			var first frame
			if len(waiting) > 0 {
				next, first = out, waiting[0]
			}

			select {
			case <-ctx.Done():
				return
			case f, ok := <-frames:
				if bytes += size(f); !ok || bytes > maxRead {
					return // the session is lost, so the waiting frames are no longer needed
				}
				waiting = append(waiting, f)
			case next <- first:
				bytes -= size(first)
				waiting[0] = frame{} // the audio of the frame can then be freed
				waiting = waiting[1:]
			}
		}
	}()
	return out
}

// size returns the number of bytes of a frame that count toward the limit maxRead.
func size(f frame) int {
	switch {
	case f.Audio != nil:
		return len(f.Audio.PCM)
	case f.Control != nil:
		return len(f.Control.Text)
	}
	return 0
}
