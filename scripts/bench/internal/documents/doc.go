// Package documents measures the knowledge of agents: how fast documents are ingested, from the upload to ready, beside
// pdftotext alone on the same file; and how long a search takes among 100,000 passages, beside one indexed query on the same
// text in the same database.
package documents
