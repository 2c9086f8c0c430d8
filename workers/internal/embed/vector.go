package embed

import (
	"errors"
	"fmt"
	"math"

	sdk "github.com/openai/openai-go/v3"
)

// maxSize is the maximum number of dimensions of a vector. The largest models have a quarter of
// this number.
const maxSize = 16_384

// read returns the vectors of a response, scaled to length 1, in the order of the texts. The
// response must contain one vector for each text. texts is the number of texts.
func (e *Embedder) read(answer *sdk.CreateEmbeddingResponse, texts int) ([][]float32, error) {
	ordered, err := inOrder(answer, texts)
	if err != nil {
		return nil, err
	}

	vectors := make([][]float32, texts)
	for i, numbers := range ordered {
		if err := e.fits(len(numbers)); err != nil {
			return nil, err
		}
		if vectors[i], err = normal(numbers); err != nil {
			return nil, err
		}
	}
	return vectors, nil
}

// inOrder returns the vectors of a response unchanged, in the order of the texts. It fails unless
// there is exactly one vector for each text.
func inOrder(answer *sdk.CreateEmbeddingResponse, texts int) ([][]float64, error) {
	if answer == nil || len(answer.Data) != texts {
		given := 0
		if answer != nil {
			given = len(answer.Data)
		}
		return nil, fmt.Errorf("received %d vectors for %d texts", given, texts)
	}

	vectors := make([][]float64, texts)
	for i := range answer.Data {
		one := &answer.Data[i]
		// Some services return vectors out of order, so use each vector's index.
		if one.Index < 0 || one.Index >= int64(texts) || vectors[one.Index] != nil {
			return nil, fmt.Errorf("index %d is out of range for %d texts, or occurs twice", one.Index, texts)
		}
		if len(one.Embedding) < 1 || len(one.Embedding) > maxSize {
			return nil, fmt.Errorf("a vector has an invalid number of dimensions: %d", len(one.Embedding))
		}
		vectors[one.Index] = one.Embedding
	}
	return vectors, nil
}

// fits returns an error if the number of dimensions differs from that of earlier vectors of this
// process.
func (e *Embedder) fits(size int) error {
	// The first vector determines the size, because vectors of different sizes cannot be compared.
	if e.size.CompareAndSwap(0, int64(size)) || e.size.Load() == int64(size) {
		return nil
	}
	return fmt.Errorf("received a vector with %d dimensions, but earlier vectors have %d", size, e.size.Load())
}

// normal returns the vector of length 1 that has the same direction as the given vector. It fails
// for a vector without a direction, and for invalid numbers.
func normal(numbers []float64) ([]float32, error) {
	largest := 0.0
	for _, x := range numbers {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, errors.New("a vector contains an invalid number")
		}
		largest = max(largest, math.Abs(x))
	}

	if largest == 0 {
		return nil, errors.New("a vector contains only zeros")
	}

	sum := 0.0
	for _, x := range numbers { // divide by the largest number, so that squares neither overflow nor underflow
		sum += (x / largest) * (x / largest)
	}

	length := math.Sqrt(sum)
	vector := make([]float32, len(numbers))
	for i, x := range numbers {
		vector[i] = float32(x / largest / length)
	}
	return vector, nil
}
