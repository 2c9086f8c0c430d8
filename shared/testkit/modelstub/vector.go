package modelstub

import "parley/shared/wordvector"

// VectorSize is the dimension of the stubs' vectors.
const VectorSize = 256

// Vector returns a text's vector of length 1; see package wordvector.
func Vector(text string) []float32 { return wordvector.Vector(text, VectorSize) }
