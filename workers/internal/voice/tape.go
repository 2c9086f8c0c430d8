package voice

import "parley/shared/contract"

const (
	rate        = contract.VoiceRate
	sampleBytes = 2

	maxTape = 300 * rate // samples that are kept at most: the 240 s that an ingress keeps, and what is being said meanwhile
	maxGap  = 10 * rate  // samples that may be missing and count as silence
)

// tape holds a line's input, from the first sample that is still needed.
type tape struct {
	start int64
	pcm   []byte
}

func (t *tape) end() int64 { return t.start + int64(len(t.pcm)/sampleBytes) }

// add takes audio that begins at a sample, and gives what is new of it. Silence stands for what is missing before it; when that
// is too much, the tape begins anew.
func (t *tape) add(at int64, pcm []byte) (fresh []byte) {
	before := len(t.pcm)
	switch missing := at - t.end(); {
	case missing > maxGap:
		t.start, t.pcm, before = at, nil, 0
	case missing > 0:
		t.pcm = append(t.pcm, make([]byte, sampleBytes*missing)...)
	case sampleBytes*-missing >= int64(len(pcm)):
		return nil
	default:
		pcm = pcm[sampleBytes*-missing:]
	}
	t.pcm = append(t.pcm, pcm...)
	return t.pcm[before:]
}

// forget drops what is before a sample.
func (t *tape) forget(before int64) {
	n := min(max(0, before-t.start), int64(len(t.pcm)/sampleBytes))
	t.start += n
	t.pcm = t.pcm[sampleBytes*n:]
}

// bound drops what is too much; false when nothing is.
func (t *tape) bound() bool {
	start := t.start
	t.forget(t.end() - maxTape)
	return t.start > start
}

// copied gives the samples between two, as far as they are there.
func (t *tape) copied(from, to int64) []byte {
	from, to = max(from, t.start), min(to, t.end())
	if from >= to {
		return nil
	}
	return append([]byte(nil), t.pcm[sampleBytes*(from-t.start):sampleBytes*(to-t.start)]...)
}
