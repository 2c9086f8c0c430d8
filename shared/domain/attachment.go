package domain

// Attachment is an image or a document that a request sends beside its message. The bytes are a
// file of the run's session.
type Attachment struct {
	FileID    string `json:"fileId"`
	Name      string `json:"name"`
	MediaType string `json:"mediaType"`
	Bytes     int64  `json:"bytes"`
}
