package domain

// Source is a text that a run has read, kept by its hash as it was read.
type Source struct {
	ID         string `json:"id"` // "src_" and the SHA-256 of the text in hex
	URL        string `json:"url"`
	Title      string `json:"title"`
	Language   string `json:"language"` // BCP 47, "" when unknown
	Text       string `json:"text"`
	Characters int    `json:"characters"` // of Text, in Unicode code points
	Truncated  bool   `json:"truncated"`  // the page had more text than is kept
	ReadAt     Time   `json:"readAt"`
}
