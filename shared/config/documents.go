package config

import (
	"fmt"
	"strings"
)

// Documents contains the settings of documents that must be the same in the ingress and the
// workers.
type Documents struct {
	DocumentsPerOrganization     int   `name:"documents-per-organization" env:"DOCUMENTS_PER_ORGANIZATION" default:"10000" help:"Maximum documents of an organization; 0: no limit."`
	DocumentBytesPerOrganization int64 `name:"document-bytes-per-organization" env:"DOCUMENT_BYTES_PER_ORGANIZATION" default:"5368709120" help:"Maximum total bytes of an organization's original documents; 0: no limit."`
	FilesPerOrganization         int64 `name:"files-per-organization" env:"FILES_PER_ORGANIZATION" default:"5368709120" help:"Maximum total bytes of an organization's uploads and of the files that its runs keep; 0: no limit."`
	EncryptContents              bool  `name:"encrypt-contents" env:"ENCRYPT_CONTENTS" default:"false" help:"Encrypt the contents of new documents and files with SECRETS_KEY."`
}

// Check returns an error for the first invalid setting.
func (d Documents) Check() error {
	switch {
	case d.DocumentsPerOrganization < 0:
		return fmt.Errorf("DOCUMENTS_PER_ORGANIZATION must not be negative: %d", d.DocumentsPerOrganization)
	case d.DocumentBytesPerOrganization < 0:
		return fmt.Errorf("DOCUMENT_BYTES_PER_ORGANIZATION must not be negative: %d", d.DocumentBytesPerOrganization)
	case d.FilesPerOrganization < 0:
		return fmt.Errorf("FILES_PER_ORGANIZATION must not be negative: %d", d.FilesPerOrganization)
	}
	return nil
}

// Ingest contains the settings with which workers process and search documents.
type Ingest struct {
	EmbeddingsModel   string `name:"embeddings-model" env:"EMBEDDINGS_MODEL" help:"Embeddings model for searching documents, such as openai/text-embedding-3-small, at OPENAI_BASE_URL. Empty: search by words only."`
	IngestConcurrency int    `name:"ingest-concurrency" env:"INGEST_CONCURRENCY" default:"0" help:"Documents processed simultaneously; 0: one per core, and one more."`
}

// maxIngestConcurrency is the upper bound of INGEST_CONCURRENCY, because the text of each document
// is in memory while the document is processed.
const maxIngestConcurrency = 64

// Check returns an error for the first invalid setting. Zero means the default.
func (i Ingest) Check() error {
	if i.IngestConcurrency < 0 || i.IngestConcurrency > maxIngestConcurrency {
		return fmt.Errorf("INGEST_CONCURRENCY must be between 0 and %d, not %d", maxIngestConcurrency, i.IngestConcurrency)
	}

	if i.EmbeddingsModel == "" {
		return nil
	}

	// Only services with OpenAI's API are supported.
	if provider, model, _ := strings.Cut(i.EmbeddingsModel, "/"); provider != "openai" || model == "" {
		return fmt.Errorf("EMBEDDINGS_MODEL must be like openai/text-embedding-3-small, not %q", i.EmbeddingsModel)
	}

	return nil
}
