package realtime

import (
	"encoding/base64"
	"errors"
	"slices"

	"parley/shared/contract"
)

const (
	bytesOf     = 2                         // a sample
	perMS       = contract.VoiceRate / 1000 // samples
	maxBuffer   = 120 * contract.VoiceRate  // samples that were not committed
	maxKept     = 240 * contract.VoiceRate  // samples that are kept, those included whose transcript is waited for
	commitLeast = 100 * perMS
	maxWaits    = 64                     // utterances whose transcript is waited for
	maxAgain    = 2 * contract.VoiceRate // samples that were not committed, and are sent once more behind an item's
	// The same while the worker listens: it needs up to 2.1 s to know speech that begins, and tells every 500 ms how far it is.
	againMostHeard = 4 * contract.VoiceRate
	blockBytes     = 200 * perMS * bytesOf // what small appends are put together into
)

var (
	errBase64 = errors.New("must be base64")
	errOdd    = errors.New("must be whole samples of 16 bits")
	errFull   = errors.New("the buffer is full: at most 120 seconds can wait to be committed; this audio was dropped")
	errKept   = errors.New("at most 240 seconds can wait for their transcripts, with those that wait to be committed; this audio was dropped")
)

// input is what came in on the line: samples are counted from the connection's first, and kept for as long as another worker might need
// them.
type input struct {
	blocks []block
	end    int64 // behind the last sample
	heard  int64 // up to which the worker has listened
	needs  int64 // before which it needs nothing to listen on
	start  int64 // of the buffer: behind what was committed or cleared last
	behind int64 // what the worker finds before is known already: it heard those samples anew
	shift  int64 // samples that are none of the stream that the client sent
	speech *speech
	waits  []span // utterances whose transcript is waited for, by their order
}

// block is samples from at on. What is written of it is not written again.
type block struct {
	at  int64
	pcm []byte
}

func (b *block) end() int64 { return b.at + int64(len(b.pcm))/bytesOf }

// speech goes on.
type speech struct {
	item string // as clients know it
	line string // as the line's worker does, which may have found it anew
	from int64
}

// span is the samples of an item.
type span struct {
	item     string
	line     string // as the line's worker names it
	from, to int64
	auto     bool // a response follows: the turn was found by listening
	deleted  bool // nobody waits for it but the worker, whose time and memory it takes until it is transcribed
}

// buffered gives where the buffer begins that a commit would take.
func (in *input) buffered(listening bool) int64 {
	switch {
	case in.speech != nil:
		return max(in.speech.from, in.start)
	case listening:
		return max(in.start, min(in.needs, in.end))
	default:
		return in.start
	}
}

// floor is the first sample that must be kept.
func (in *input) floor(listening bool) int64 {
	low := in.buffered(listening)
	for _, w := range in.waits {
		low = min(low, w.from)
	}
	return low
}

// prune forgets what nobody needs, but for the last block, which may have room.
func (in *input) prune(listening bool) {
	low, n := in.floor(listening), 0
	for n < len(in.blocks)-1 && in.blocks[n].end() <= low {
		n++
	}
	if n > 0 {
		in.blocks = slices.Delete(in.blocks, 0, n)
	}
}

// decode adds base64 audio at the end, and gives it as it was added.
func (in *input) decode(encoded []byte, listening bool) ([]byte, error) {
	limit := base64.StdEncoding.DecodedLen(len(encoded))
	room := in.room(limit)
	n, err := base64.StdEncoding.Decode(room[:limit], encoded)
	switch {
	case err != nil:
		return nil, errBase64
	case n%bytesOf != 0:
		return nil, errOdd
	case in.end-in.buffered(listening)+int64(n)/bytesOf > maxBuffer:
		return nil, errFull
	case in.end-in.floor(listening)+int64(n)/bytesOf > maxKept:
		return nil, errKept
	}
	return in.wrote(n), nil
}

// room gives space for so many bytes behind the last block's, in a new block when that one is full.
func (in *input) room(bytes int) []byte {
	if n := len(in.blocks); n > 0 {
		last := &in.blocks[n-1]
		if free := last.pcm[len(last.pcm):cap(last.pcm)]; len(free) >= bytes && last.end() == in.end {
			return free
		}
		if len(last.pcm) == 0 { // made for an append that did not hold
			in.blocks = in.blocks[:n-1]
		}
	}
	made := make([]byte, 0, max(bytes, blockBytes))
	in.blocks = append(in.blocks, block{at: in.end, pcm: made})
	return made[:cap(made)]
}

// wrote takes the bytes that were written into room.
func (in *input) wrote(bytes int) []byte {
	last := &in.blocks[len(in.blocks)-1]
	from := len(last.pcm)
	last.pcm = last.pcm[: from+bytes : cap(last.pcm)]
	in.end += int64(bytes) / bytesOf
	return last.pcm[from : from+bytes : from+bytes]
}

// frames gives kept samples as frames of the line.
func (in *input) frames(from, to int64) []contract.VoiceAudio {
	var out []contract.VoiceAudio
	for _, b := range in.blocks {
		low, high := max(from, b.at), min(to, b.end())
		if low < high {
			out = appendFrames(out, low, b.pcm[(low-b.at)*bytesOf:(high-b.at)*bytesOf])
		}
	}
	return out
}

// appendFrames cuts samples into frames that are not too long.
func appendFrames(out []contract.VoiceAudio, at int64, samples []byte) []contract.VoiceAudio {
	for len(samples) > 0 {
		n := min(len(samples), contract.MaxVoiceFrame*bytesOf)
		out = append(out, contract.VoiceAudio{At: at, PCM: samples[:n:n]})
		at += int64(n) / bytesOf
		samples = samples[n:]
	}
	return out
}

// rest is how many samples an insertion sends once more.
func (in *input) rest(listening bool) int64 { return in.end - in.buffered(listening) }

// insert puts audio that is no part of the client's stream into the line, and what was not committed yet behind it once more: so items'
// audio can be committed without what the user is about to say. It gives where the audio is, and what is to be sent.
func (in *input) insert(items []held, listening bool) (inserted []span, out []contract.VoiceAudio) {
	low, end := in.buffered(listening), in.end
	rest := in.frames(low, end)
	add := func(samples []byte) {
		at := in.end
		copy(in.room(len(samples)), samples)
		out = appendFrames(out, at, in.wrote(len(samples)))
	}
	for _, h := range items {
		from := in.end
		add(h.samples)
		inserted = append(inserted, span{item: h.item, line: h.item, from: from, to: in.end})
	}
	in.start, in.behind = in.end, in.end
	for _, frame := range rest {
		add(frame.PCM)
	}
	in.shift += in.end - end
	return inserted, out
}

// ms is a sample's time in the stream that the client sent.
func (in *input) ms(sample int64) int64 { return max(0, sample-in.shift) / perMS }

// settle forgets an utterance whose transcript is waited for; false when there is none.
func (in *input) settle(is func(span) bool) (span, bool) {
	at := slices.IndexFunc(in.waits, is)
	if at < 0 {
		return span{}, false
	}
	found := in.waits[at]
	in.waits = slices.Delete(in.waits, at, at+1)
	return found, true
}

// disown marks an utterance whose item was deleted: what waits is bounded with it, as it is at the worker.
func (in *input) disown(item string) {
	for i := range in.waits {
		if in.waits[i].item == item {
			in.waits[i].deleted = true
		}
	}
}

// wanted tells whether somebody waits for an utterance's transcript.
func (in *input) wanted() bool {
	return slices.ContainsFunc(in.waits, func(w span) bool { return !w.deleted })
}

// forsake forgets the utterances that nobody waits for: no worker has them any more.
func (in *input) forsake() {
	in.waits = slices.DeleteFunc(in.waits, func(w span) bool {
		if w.deleted {
			in.behind = max(in.behind, w.to)
		}
		return w.deleted
	})
}
