package voice

import "parley/shared/contract"

const (
	rate        = contract.VoiceRate
	sampleBytes = 2

	maxTape = 300 * rate // maximum number of samples: the 240 s that an ingress keeps, and the speech in progress
	maxGap  = 10 * rate  // maximum number of missing samples that are replaced by silence
)

// tape contains the audio of a session, beginning with the first sample that is still needed.
// Samples are consecutive: a short gap is filled with silence.
type tape struct {
	// Position of the first sample in pcm.
	start int64
	pcm   []byte
}

// end returns the position after the last sample.
func (t *tape) end() int64 { return t.start + int64(len(t.pcm)/sampleBytes) }

// add appends audio that begins at a given position, and returns the part that is new. It replaces
// missing samples with silence. If more than maxGap samples are missing, the tape restarts at the
// given position.
func (t *tape) add(at int64, pcm []byte) (fresh []byte) {
	before := len(t.pcm)
	switch missing := at - t.end(); {
	// A long gap means that the session was interrupted. So much silence would only delay the
	// session.
	case missing > maxGap:
		t.start, t.pcm, before = at, nil, 0
	case missing > 0:
		t.pcm = append(t.pcm, make([]byte, sampleBytes*missing)...)
	// After a session has moved, the ingress may repeat audio that has already arrived.
	case sampleBytes*-missing >= int64(len(pcm)):
		return nil
	default:
		pcm = pcm[sampleBytes*-missing:]
	}
	t.pcm = append(t.pcm, pcm...)
	return t.pcm[before:]
}

// forget drops all samples before a position.
func (t *tape) forget(before int64) {
	n := min(max(0, before-t.start), int64(len(t.pcm)/sampleBytes))
	t.start += n
	t.pcm = t.pcm[sampleBytes*n:]
}

// bound drops the oldest samples if there are more than maxTape, and reports whether it did so.
func (t *tape) bound() bool {
	start := t.start
	t.forget(t.end() - maxTape)
	return t.start > start
}

// copyRange returns a copy of the samples between two positions. It omits samples that are not
// available.
func (t *tape) copyRange(from, to int64) []byte {
	from, to = max(from, t.start), min(to, t.end())
	if from >= to {
		return nil
	}
	return append([]byte(nil), t.pcm[sampleBytes*(from-t.start):sampleBytes*(to-t.start)]...)
}
