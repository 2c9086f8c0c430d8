package openaiapi

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"
)

// maximum number of texts in a request.
const (
	maxInputs       = 2_048
	maxInput        = 100_000 // maximum characters of one text; no model accepts more
	maxDimensions   = 16_384
	maxModelName    = 256
	floatBytes      = 12 // estimated size of a number in JSON, in bytes
	encodingBase64  = "base64"
	encodingDefault = "float"
)

// EmbeddingRequest is the body of POST /v1/embeddings. Fields that it does not list are ignored.
type EmbeddingRequest struct {
	Model          string          `json:"model" required:"true"`
	Input          json.RawMessage `json:"input" required:"true"`
	EncodingFormat *string         `json:"encoding_format"`
	Dimensions     *int64          `json:"dimensions"`
}

// Texts validates the request and returns the texts to embed. The result must not be used if Texts
// has reported a problem.
func (r *EmbeddingRequest) Texts(wrong Wrong) []string {
	if n := utf8.RuneCountInString(r.Model); n < 1 || n > maxModelName {
		wrong("model", "invalid_value", "must be the name of an embeddings model")
	}
	if f := r.EncodingFormat; f != nil && *f != encodingDefault && *f != encodingBase64 {
		wrong("encoding_format", "invalid_value", "must be float or base64")
	}
	if d := r.Dimensions; d != nil && (*d < 1 || *d > maxDimensions) {
		wrong("dimensions", "invalid_value", "must be a whole number from 1 to %d", maxDimensions)
	}

	texts := readTexts(r.Input, wrong)
	for i, text := range texts {
		at := "input"
		if r.Input[0] == '[' {
			at = index(at, i)
		}
		switch n := utf8.RuneCountInString(text); {
		case n == 0:
			wrong(at, "too_short", "must not be empty")
		case n > maxInput:
			wrong(at, "too_long", "must have at most %d characters, not %d", maxInput, n)
		}
	}
	return texts
}

// readTexts decodes input, which is a text or a list of texts. Lists of tokens, which OpenAI's API
// accepts, are rejected.
func readTexts(input json.RawMessage, wrong Wrong) []string {
	var one string
	var list []json.RawMessage
	switch {
	case len(input) == 0:
		return nil // the decoder has already reported the missing field
	case json.Unmarshal(input, &one) == nil && input[0] == '"':
		return []string{one}
	case json.Unmarshal(input, &list) != nil || len(list) == 0:
		wrong("input", "invalid_type", "must be a text or a list of texts")
		return nil
	case len(list) > maxInputs:
		wrong("input", "too_long", "must have at most %d texts, not %d", maxInputs, len(list))
		return nil
	}

	texts := make([]string, len(list))
	for i, raw := range list {
		if raw[0] == '"' && json.Unmarshal(raw, &texts[i]) == nil {
			continue
		}
		wrong(index("input", i), "invalid_type", "must be a text: lists of tokens are not supported. "+
			"LangChain for Python sends texts with check_embedding_ctx_length=False")
		return nil
	}
	return texts
}

// Size returns the number of dimensions that the client requests, or 0 if it requests the model's
// default.
func (r *EmbeddingRequest) Size() int {
	if r.Dimensions == nil {
		return 0
	}
	return int(*r.Dimensions)
}

// base64 reports whether the client requests the vectors in base64.
func (r *EmbeddingRequest) base64() bool {
	return r.EncodingFormat != nil && *r.EncodingFormat == encodingBase64
}

// ResponseBytes estimates the length of the response, for the given number of vectors of the given
// size in bytes. The caller uses the estimate to limit the memory of a response before it builds
// the response.
func (r *EmbeddingRequest) ResponseBytes(vectors, bytes int) int {
	one := bytes / 4 * floatBytes
	if r.base64() {
		one = base64.StdEncoding.EncodedLen(bytes)
	}
	return vectors * (one + 64)
}

// Embeddings renders the response. Each vector consists of 32-bit floating-point numbers in
// little-endian order. The result has the order of the input. The argument vectors must not be
// empty.
func (r *EmbeddingRequest) Embeddings(model string, vectors [][]byte, tokens int64) []byte {
	out := make([]byte, 0, r.ResponseBytes(len(vectors)+1, len(vectors[0])))
	out = append(out, `{"object":"list","data":[`...)
	for i, vector := range vectors {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, `{"object":"embedding","index":`...)
		out = strconv.AppendInt(out, int64(i), 10)
		out = append(out, `,"embedding":`...)
		if r.base64() {
			out = append(out, '"')
			out = base64.StdEncoding.AppendEncode(out, vector)
			out = append(out, '"')
		} else {
			out = appendNumbers(out, vector)
		}
		out = append(out, '}')
	}
	out = append(out, `],"model":`...)
	out = appendText(out, model)
	out = strconv.AppendInt(append(out, `,"usage":{"prompt_tokens":`...), tokens, 10)
	out = strconv.AppendInt(append(out, `,"total_tokens":`...), tokens, 10)
	return append(out, '}', '}')
}

// appendText appends a text as a JSON string.
func appendText(out []byte, text string) []byte {
	raw, err := json.Marshal(text)
	if err != nil {
		return append(out, `""`...) // unreachable, because every text has a JSON form
	}
	return append(out, raw...)
}

// appendNumbers appends a vector as a JSON list of numbers. A remainder of fewer than four bytes is
// ignored.
func appendNumbers(out, vector []byte) []byte {
	out = append(out, '[')
	for at := 0; at+4 <= len(vector); at += 4 {
		if at > 0 {
			out = append(out, ',')
		}
		x := float64(math.Float32frombits(binary.LittleEndian.Uint32(vector[at:])))
		out = strconv.AppendFloat(out, x, 'g', -1, 32)
	}
	return append(out, ']')
}
