package voice

import (
	"context"

	"parley/shared/contract"
)

// maxRead is how many bytes of frames wait for a line at most: of one that is taken up, all that an ingress keeps comes at
// once, which is more than the bus holds for a reader.
const maxRead = 16 << 20

type frame = contract.VoiceFrame[contract.VoiceCommand]

// read takes frames off the bus as they come, and gives them in their order until ctx or they end.
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
					return // the line is lost: what waits is of no use
				}
				waiting = append(waiting, f)
			case next <- first:
				bytes -= size(first)
				waiting[0] = frame{} // its audio need not stay for those behind it
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
