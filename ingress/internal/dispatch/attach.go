package dispatch

import (
	"context"
	"errors"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/store/blobdb"
	"parley/shared/store/queuedb"
)

// Attachment is an attachment as the request contains it. Exactly one of FileID, URL and Data is
// set.
type Attachment struct {
	Field string // field of the request, such as attachments[0]
	Exact bool   // if true, At returns Field as it is and appends no field of the attachment
	// ID of a file that is already stored.
	FileID string
	// URL with http or https.
	URL string
	// Content of the file.
	Data      []byte
	Name      string // file name; empty: unknown
	MediaType string // media type that the client declared; empty: unknown
}

// At returns the path of a field of the attachment within the request, for an error message.
func (a *Attachment) At(inner string) string {
	if a.Exact || inner == "" {
		return a.Field
	}
	return a.Field + "." + inner
}

// Attacher stores the attachments of a request.
type Attacher interface {
	// Resolve checks and stores the attachments of a submission. Its errors name the field of the
	// request.
	Resolve(ctx context.Context, s *Submission) ([]blobdb.NewAttachment, error)
}

// WithAttachments makes the Submitter accept attachments. The argument a stores them. maxBytes is
// the maximum total size of an organization's files; 0 means no limit. WithAttachments must be
// called before the first request.
func (r *Submitter) WithAttachments(a Attacher, maxBytes int64) *Submitter {
	r.attacher, r.maxFileBytes = a, maxBytes
	return r
}

// resolveAttachments stores the submission's attachments and adds their descriptions to s.Options.
// It returns nil without attachments. It first computes the fingerprint, which describes the
// request as it was sent.
func (r *Submitter) resolveAttachments(ctx context.Context, s *Submission) ([]blobdb.NewAttachment, error) {
	if len(s.Attachments) == 0 {
		return nil, nil
	}
	if r.attacher == nil {
		return nil, apierr.Invalid(s.Attachments[0].Field, "invalid_value", "this request does not support attachments")
	}
	if s.asked == nil {
		s.asked = s.fingerprint()
	}
	files, err := r.attacher.Resolve(ctx, s)
	if err != nil {
		return nil, err
	}

	s.Options.Attachments = make([]domain.Attachment, len(files))
	for i := range files {
		s.Options.Attachments[i] = files[i].Attachment
	}
	return files, nil
}

// linkAttachments links stored attachments to a run before the run is accepted. The errors are
// budget_exceeded if the files would exceed the organization's limit, and unavailable if a file was
// removed in the meantime.
func (r *Submitter) linkAttachments(ctx context.Context, run *queuedb.NewRun, files []blobdb.NewAttachment) error {
	if len(files) == 0 {
		return nil
	}
	for i := range files {
		run.Attachments = append(run.Attachments, files[i].Attachment)
	}

	err := r.store.Blobs.LinkAttachments(ctx, run.OrganizationID, run.ID, files, r.maxFileBytes)
	switch {
	case errors.Is(err, blobdb.ErrFilesFull):
		return apierr.Wrap(apierr.BudgetExceeded, err, "file quota of the organization exceeded; erase sessions or raise FILES_PER_ORGANIZATION")
	case errors.Is(err, blobdb.ErrBlobGone):
		return apierr.Wrap(apierr.Unavailable, err, "an attachment was removed in the meantime; try again")
	default:
		return err
	}
}
