package domain

// File is a file that a tool call in a run has created, or that was sent with the run's request. It
// is deleted with the run.
type File struct {
	ID        string `json:"id"`
	Name      string `json:"name"` // path in the working folder, for example "plot.png" or "out/table.csv"
	MIMEType  string `json:"mimeType"`
	Bytes     int64  `json:"bytes"`
	SHA256    string `json:"sha256"` // of the content, in hex
	RunID     string `json:"runId"`
	CallID    string `json:"toolCallId"`
	CreatedAt Time   `json:"createdAt"`
}
