package embed

import (
	"errors"
	"fmt"
	"math"

	sdk "github.com/openai/openai-go/v3"
)

// maxSize bounds the number of dimensions of a vector, at four times that of the largest models.
const maxSize = 16_384

// read returns the vectors of a response in the order of the texts. texts is their number.
func (e *Embedder) read(answer *sdk.CreateEmbeddingResponse, texts int) ([][]float32, error) {
	if answer == nil || len(answer.Data) != texts {
		given := 0
		if answer != nil {
			given = len(answer.Data)
		}
		return nil, fmt.Errorf("%d vectors for %d texts", given, texts)
	}

	vectors := make([][]float32, texts)
	for i := range answer.Data {
		one := &answer.Data[i]
		// Some services return the vectors out of order, so the index decides.
		if one.Index < 0 || one.Index >= int64(texts) || vectors[one.Index] != nil {
			return nil, fmt.Errorf("index %d is out of range for %d texts, or occurs twice", one.Index, texts)
		}
		if err := e.fits(len(one.Embedding)); err != nil {
			return nil, err
		}
		var err error
		if vectors[one.Index], err = normal(one.Embedding); err != nil {
			return nil, err
		}
	}
	return vectors, nil
}

// fits returns an error if a vector has an invalid number of dimensions, or another number than
// earlier vectors.
func (e *Embedder) fits(size int) error {
	if size < 1 || size > maxSize {
		return fmt.Errorf("a vector of %d numbers", size)
	}
	// The first vector determines the size. Vectors of different sizes cannot be compared.
	if e.size.CompareAndSwap(0, int64(size)) || e.size.Load() == int64(size) {
		return nil
	}
	return fmt.Errorf("a vector of %d numbers after one of %d", size, e.size.Load())
}

// normal returns the vector of length 1 that has the same direction.
func normal(numbers []float64) ([]float32, error) {
	largest := 0.0
	for _, x := range numbers {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, errors.New("a vector with an invalid number")
		}
		largest = max(largest, math.Abs(x))
	}

	if largest == 0 {
		return nil, errors.New("a vector of zeros")
	}

	sum := 0.0
	for _, x := range numbers { // scaled by the largest number, so that no square overflows or underflows
		sum += (x / largest) * (x / largest)
	}

	length := math.Sqrt(sum)
	vector := make([]float32, len(numbers))
	for i, x := range numbers {
		vector[i] = float32(x / largest / length)
	}
	return vector, nil
}
