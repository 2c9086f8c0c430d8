package modelstub

import "parley/shared/wordvector"

// VectorSize is the dimension of the stubs' vectors.
const VectorSize = 256

// Vector returns the unit vector of a text; see package wordvector.
func Vector(text string) []float32 { return wordvector.Vector(text, VectorSize) }
