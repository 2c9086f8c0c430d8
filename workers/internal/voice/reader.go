package voice

import (
	"context"

	"parley/shared/contract"
)

// maxRead is the maximum number of bytes of frames that wait for a session. When a session moves to
// this worker, the ingress sends all its kept audio in a burst. That is more than the bus buffers
// for a reader.
const maxRead = 16 << 20

type frame = contract.VoiceFrame[contract.VoiceCommand]

// read receives frames from the bus without delay and delivers them in order, until ctx or the
// frames end.
func read(ctx context.Context, frames <-chan frame) <-chan frame {
	out := make(chan frame)
	go func() {
		defer close(out)
		var waiting []frame
		bytes := 0
		for {
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
					return // the session is lost; waiting frames are useless
				}
				waiting = append(waiting, f)
			case next <- first:
				bytes -= size(first)
				waiting[0] = frame{} // lets its audio be freed
				waiting = waiting[1:]
			}
		}
	}()
	return out
}

func size(f frame) int {
	switch {
	case f.Audio != nil:
		return len(f.Audio.PCM)
	case f.Control != nil:
		return len(f.Control.Text)
	}
	return 0
}
