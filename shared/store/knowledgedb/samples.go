package knowledgedb

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/store/pg"
)

// AddSamples adds sample documents to an organization, like AddDocuments. The new documents have
// the metadata domain.MetadataExample. The argument by is the principal that adds the documents.
// The caller publishes the jobs.
func AddSamples(
	ctx context.Context, s *Store, org, by string, samples []domain.Sample, limits DocumentLimits,
) ([]QueuedDocument, error) {
	docs := make([]NewDocument, len(samples))
	for i, sample := range samples {
		var err error
		if docs[i], err = newSample(ctx, s, org, by, sample); err != nil {
			return nil, err
		}
	}
	return s.AddDocuments(ctx, org, docs, limits)
}

// newSample stores the content of a sample and returns the document to add. The content is removed
// by the sweeper if the document is not added.
func newSample(ctx context.Context, s *Store, org, by string, sample domain.Sample) (NewDocument, error) {
	content, err := s.blobs.Upload(ctx, org, bytes.NewReader(sample.Content), int64(len(sample.Content)))
	if err != nil {
		return NewDocument{}, err
	}
	return NewDocument{
		ID: id.New(id.Document), Name: sample.Name, MIMEType: sample.MIMEType, Content: &content, CreatedBy: by,
		Metadata: map[string]string{domain.MetadataExample: "true"},
	}, nil
}

// SyncSamples adds the sample documents to an organization without members, which cannot change its
// documents. A sample of an earlier release with the same name gets the new content. SyncSamples
// publishes no jobs: workers find queued documents in the database.
func SyncSamples(ctx context.Context, s *Store, org, by string, samples []domain.Sample) error {
	var rows []DocumentRow
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		rows = nil // the transaction may be retried
		return tx.SelectContext(ctx, &rows, `SELECT `+DocumentColumns+` FROM documents d WHERE d.org_id = $1 AND d.metadata ? $2`,
			org, domain.MetadataExample)
	})
	if err != nil {
		return fmt.Errorf("reading samples: %w", err)
	}

	for _, sample := range samples {
		for _, row := range rows {
			if row.Name != sample.Name || bytes.Equal(row.Hash, sampleHash(sample)) {
				continue
			}
			changed, err := newSample(ctx, s, org, by, sample)
			if err == nil {
				_, err = s.ReplaceDocument(ctx, org, row.ID, changed, DocumentLimits{})
			}
			if err != nil {
				return fmt.Errorf("replacing sample %s: %w", sample.Name, err)
			}
		}
	}

	_, err = AddSamples(ctx, s, org, by, samples, DocumentLimits{})
	return err
}

// sampleHash returns the hash that a document with the sample's content has.
func sampleHash(sample domain.Sample) []byte {
	hash := sha256.Sum256(sample.Content)
	return hash[:]
}

// SampleDocuments returns, for each sample, the organization's document with the sample's content,
// or nil. The results are in the order of samples.
func SampleDocuments(ctx context.Context, s *Store, org string, samples []domain.Sample) ([]*domain.Document, error) {
	hashes := pg.Column(samples, func(sample *domain.Sample) []byte { return sampleHash(*sample) })
	var rows []DocumentRow
	err := s.db.Within(ctx, []string{org}, func(tx *sqlx.Tx) error {
		rows = nil // the transaction may be retried
		return tx.SelectContext(ctx, &rows, `SELECT `+DocumentColumns+` FROM documents d
			WHERE d.org_id = $1 AND d.url IS NULL AND d.hash = ANY ($2)`, org, pq.ByteaArray(hashes))
	})
	if err != nil {
		return nil, fmt.Errorf("reading samples: %w", err)
	}

	out := make([]*domain.Document, len(samples))
	for i, hash := range hashes {
		for _, row := range rows {
			if !bytes.Equal(row.Hash, hash) {
				continue
			}
			doc, err := row.Document()
			if err != nil {
				return nil, err
			}
			out[i] = &doc
		}
	}
	return out, nil
}
