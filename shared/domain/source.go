package domain

// Source is a text that a run has read, stored by its hash.
type Source struct {
	ID         string `json:"id"` // "src_" and the SHA-256 of the text in hex
	URL        string `json:"url"`
	Title      string `json:"title"`
	Language   string `json:"language"` // BCP 47; "" if unknown
	Text       string `json:"text"`
	Characters int    `json:"characters"` // of Text, in Unicode code points
	Truncated  bool   `json:"truncated"`  // only a part of the text is stored
	ReadAt     Time   `json:"readAt"`
}
