package browser

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
)

// question is what the microphone hears in these tests.
const question = "Please tell me about the weather in London."

// loudEnough is a sample of speech, as opposed to noise.
const loudEnough = 1000

// ear understands speech, whoever speaks: what is loud enough is the question. What pocketsphinx understands is tested elsewhere; on
// a machine that is busy a browser's sound has gaps, and then it understands something else.
func ear(w http.ResponseWriter, r *http.Request) {
	file, _, err := r.FormFile("file")
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	wav, err := io.ReadAll(file)
	if err != nil {
		return // half a request is not answered
	}
	words := ""
	if _, samples, found := bytes.Cut(wav, []byte("data")); found && loudest(samples[min(4, len(samples)):]) >= loudEnough {
		words = question
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"text":`+quoted(words)+`}`)
}

// loudest gives the loudest sample of 16 bits.
func loudest(pcm []byte) (limit int) {
	for ; len(pcm) > 1; pcm = pcm[2:] {
		sample := int(int16(binary.LittleEndian.Uint16(pcm)))
		limit = max(limit, sample, -sample)
	}
	return limit
}
