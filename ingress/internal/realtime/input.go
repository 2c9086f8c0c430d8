package realtime

import (
	"encoding/base64"
	"errors"
	"slices"

	"parley/shared/contract"
)

const (
	sampleBytes = 2                         // number of bytes of a sample
	perMS       = contract.VoiceRate / 1000 // number of samples per millisecond
	maxBuffer   = 120 * contract.VoiceRate  // maximum number of uncommitted samples
	maxKept     = 240 * contract.VoiceRate  // maximum number of samples in memory, including utterances whose transcript is pending
	// Minimum number of samples of a commit.
	commitLeast = 100 * perMS
	maxWaits    = 64                     // maximum number of utterances whose transcript is pending
	maxAgain    = 2 * contract.VoiceRate // maximum number of uncommitted samples that are sent again after the audio of an item
	// maxAgainListening is the limit that replaces maxAgain while detection is on. It is higher,
	// because the worker needs up to 2.1 s to detect the beginning of speech and reports its
	// progress every 500 ms.
	maxAgainListening = 4 * contract.VoiceRate
	blockBytes        = 200 * perMS * sampleBytes // appended audio is combined into blocks of this many bytes
)

var (
	// In error messages, these texts follow the name of the field.
	errBase64 = errors.New("must be base64")
	errOdd    = errors.New("must contain only complete 16-bit samples")
	errFull   = errors.New("the buffer is full (120 seconds of uncommitted audio); this audio was dropped")
	errKept   = errors.New("too much audio is waiting for commit or transcription (240 seconds); this audio was dropped")
)

// input contains the audio received from the client. Samples are numbered from the first sample of
// the connection. A sample is kept as long as a replacement worker might need it. maxKept limits
// the number of kept samples.
type input struct {
	// Kept samples in order; there are no gaps between blocks.
	blocks []block
	end    int64 // number of the sample after the last one
	heard  int64 // number of the sample after those that the worker has processed
	needs  int64 // number of the first sample that the worker still needs
	start  int64 // number of the first sample of the buffer, after the last commit or clear
	behind int64 // speech that begins before this sample was already reported; the worker may receive these samples again
	shift  int64 // number of samples that do not come from the client's stream
	// Utterance in progress; nil: the user is silent.
	speech *speech
	waits  []span // utterances whose transcript is pending, oldest first
}

// block contains consecutive samples. The field at is the number of the first sample. Stored
// samples are never modified. pcm consists of 16-bit samples in little-endian order.
type block struct {
	at  int64
	pcm []byte
}

// end returns the number of the sample that follows the block.
func (b *block) end() int64 { return b.at + int64(len(b.pcm))/sampleBytes }

// speech is an utterance in progress.
type speech struct {
	item string // id of the item as the client knows it
	line string // id of the item as the worker knows it, which differs if another worker has taken over
	// Number of its first sample.
	from int64
}

// span is the range of samples that belongs to an item. The field to is the number of the sample
// after the last one. A span waits for its transcript.
type span struct {
	item     string
	line     string // id of the item as the worker knows it
	from, to int64
	auto     bool // whether speech detection found this utterance and the session requests a response to it
	deleted  bool // whether the item was deleted; the span remains until the worker has transcribed it
}

// buffered returns the number of the first sample that a commit would include. listening reports
// whether detection is on. With detection, samples that the worker no longer needs are not part of
// the buffer.
func (in *input) buffered(listening bool) int64 {
	switch {
	case in.speech != nil:
		return max(in.speech.from, in.start)
	// There is no uncommitted speech in the samples that the worker no longer needs.
	case listening:
		return max(in.start, min(in.needs, in.end))
	default:
		return in.start
	}
}

// firstKept returns the number of the first sample that must stay in memory. The uncommitted
// samples and those of pending utterances must stay.
func (in *input) firstKept(listening bool) int64 {
	low := in.buffered(listening)
	for _, w := range in.waits {
		low = min(low, w.from)
	}
	return low
}

// prune drops blocks that are no longer needed. It keeps the last block, which may have free space.
// The blocks that remain keep their numbers.
func (in *input) prune(listening bool) {
	low, n := in.firstKept(listening), 0
	for n < len(in.blocks)-1 && in.blocks[n].end() <= low {
		n++
	}
	if n > 0 {
		in.blocks = slices.Delete(in.blocks, 0, n)
	}
}

// decode appends base64 audio to the input and returns the decoded samples. The errors are
// errBase64, errOdd, errFull and errKept; after an error no samples are added. The result shares
// the memory of the input and must not be modified.
func (in *input) decode(encoded []byte, listening bool) ([]byte, error) {
	// Decode the audio directly into the block, which saves a copy.
	limit := base64.StdEncoding.DecodedLen(len(encoded))
	room := in.room(limit)
	n, err := base64.StdEncoding.Decode(room[:limit], encoded)
	switch {
	case err != nil:
		return nil, errBase64
	case n%sampleBytes != 0:
		return nil, errOdd
	case in.end-in.buffered(listening)+int64(n)/sampleBytes > maxBuffer:
		return nil, errFull
	case in.end-in.firstKept(listening)+int64(n)/sampleBytes > maxKept:
		return nil, errKept
	}
	return in.wrote(n), nil
}

// room returns free space for the given number of bytes at the end of the input. If the last block
// has too little space, it adds a block. The space is at least as large as requested. The space
// becomes part of the input only when wrote is called.
func (in *input) room(bytes int) []byte {
	if n := len(in.blocks); n > 0 {
		last := &in.blocks[n-1]
		if free := last.pcm[len(last.pcm):cap(last.pcm)]; len(free) >= bytes && last.end() == in.end {
			return free
		}
		if len(last.pcm) == 0 { // the block was added for an append that failed
			in.blocks = in.blocks[:n-1]
		}
	}

	// The block gets spare capacity for further audio.
	made := make([]byte, 0, max(bytes, blockBytes))
	in.blocks = append(in.blocks, block{at: in.end, pcm: made})
	return made[:cap(made)]
}

// wrote records that the given number of bytes was written into the space that room returned, and
// returns these bytes. It must follow a call of room with at least this number of bytes.
func (in *input) wrote(bytes int) []byte {
	last := &in.blocks[len(in.blocks)-1]
	from := len(last.pcm)
	last.pcm = last.pcm[: from+bytes : cap(last.pcm)]
	in.end += int64(bytes) / sampleBytes
	return last.pcm[from : from+bytes : from+bytes]
}

// frames returns the kept samples between the numbers from and to, divided into frames for the
// worker. Samples that are no longer kept are omitted. The frames share the memory of the input.
func (in *input) frames(from, to int64) []contract.VoiceAudio {
	var out []contract.VoiceAudio
	for _, b := range in.blocks {
		// The range may contain only a part of the block.
		low, high := max(from, b.at), min(to, b.end())
		if low < high {
			out = appendFrames(out, low, b.pcm[(low-b.at)*sampleBytes:(high-b.at)*sampleBytes])
		}
	}
	return out
}

// appendFrames appends samples to frames, divided into frames of limited length. The argument at is
// the number of the first sample. The frames share the memory of samples.
func appendFrames(out []contract.VoiceAudio, at int64, samples []byte) []contract.VoiceAudio {
	for len(samples) > 0 {
		n := min(len(samples), contract.MaxVoiceFrame*sampleBytes)
		out = append(out, contract.VoiceAudio{At: at, PCM: samples[:n:n]})
		at += int64(n) / sampleBytes
		samples = samples[n:]
	}
	return out
}

// rest returns the number of uncommitted samples, which must be sent again after an inserted item.
func (in *input) rest(listening bool) int64 { return in.end - in.buffered(listening) }

// insert adds to the input the audio of items that the client has created. After the items, it
// repeats the uncommitted samples, so that the items can be committed without the user's current
// speech. insert returns the position of each item's audio, and the frames to send to the worker.
// The caller has checked that there is memory for the samples.
func (in *input) insert(items []heldAudio, listening bool) (inserted []span, out []contract.VoiceAudio) {
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

	// The audio of items is not the user's current speech, so speech in it is not reported.
	in.start, in.behind = in.end, in.end
	for _, frame := range rest {
		add(frame.PCM)
	}
	in.shift += in.end - end
	return inserted, out
}

// ms returns the position of a sample in the client's stream, in milliseconds. It is never
// negative.
func (in *input) ms(sample int64) int64 { return max(0, sample-in.shift) / perMS }

// remove removes and returns the first pending utterance that the given function selects. It
// returns false if there is no such utterance. The samples of the utterance may then be dropped by
// prune.
func (in *input) remove(is func(span) bool) (span, bool) {
	at := slices.IndexFunc(in.waits, is)
	if at < 0 {
		return span{}, false
	}
	found := in.waits[at]
	in.waits = slices.Delete(in.waits, at, at+1)
	return found, true
}

// disown records that the item of an utterance was deleted. The utterance stays pending until the
// worker has transcribed it. A request for a transcript cannot be withdrawn.
func (in *input) disown(item string) {
	for i := range in.waits {
		if in.waits[i].item == item {
			in.waits[i].deleted = true
		}
	}
}

// wanted reports whether the transcript of an item is pending and the item was not deleted.
func (in *input) wanted() bool {
	return slices.ContainsFunc(in.waits, func(w span) bool { return !w.deleted })
}

// forsake removes the pending utterances of deleted items. It is called when a worker is lost,
// because the next worker does not transcribe these utterances. Their samples count as reported, so
// that the next worker's detection does not report them again.
func (in *input) forsake() {
	in.waits = slices.DeleteFunc(in.waits, func(w span) bool {
		if w.deleted {
			in.behind = max(in.behind, w.to)
		}
		return w.deleted
	})
}
