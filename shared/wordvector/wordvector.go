// Package wordvector computes vectors of texts from their words and parts of words, without a
// model. The offline embeddings and the stubs of the tests use it. Such vectors find similar
// spellings, but not synonyms.
package wordvector

import (
	"hash/fnv"
	"math"
	"strings"
	"unicode"
)

// Vector returns a unit vector that represents a text. The argument size is the number of the
// vector's components, and must be at least 1. Vector is deterministic. Texts that share words or
// parts of words have similar vectors. Case does not matter. The vector of a text without letters
// and digits is also a unit vector.
func Vector(text string, size int) []float32 {
	sums := make([]float64, size)
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if len(words) == 0 {
		words = []string{text}
	}

	for _, word := range words {
		// A whole word has twice the weight of each group of three characters in it.
		addFeature(sums, word, 1)
		runes := []rune(" " + word + " ")
		for n := 0; n+3 <= len(runes); n++ {
			addFeature(sums, "3"+string(runes[n:n+3]), 0.5)
		}
	}

	length := 0.0
	for _, x := range sums {
		length += x * x
	}

	length = math.Sqrt(length)
	vector := make([]float32, size)
	for n, x := range sums {
		if length > 0 {
			vector[n] = float32(x / length)
		}
	}

	if length == 0 { // the features have cancelled each other out
		vector[0] = 1
	}

	return vector
}

// addFeature adds the weight of a feature, which is a word or a part of a word, to the sums. The
// hash of the feature determines the index and the sign of the weight.
func addFeature(sums []float64, feature string, weight float64) {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(feature)) // a hash never fails
	sum := hash.Sum64()
	if sum>>63 == 1 {
		weight = -weight
	}
	sums[sum%uint64(len(sums))] += weight
}
