package sealdb

// chunkSize is how much of a content is sent to and from the database at a time; the schema and what is stored hold it.
const ChunkSize = 1 << 20

// chunk is a part of a content.
type Chunk struct {
	Hash []byte
	N    int
	Data []byte
}

// pieceSize is how much of a content is read and held at a time, an even part of a chunk: many who read slowly hold as many.
const PieceSize = 128 << 10
