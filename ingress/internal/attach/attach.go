package attach

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"parley/ingress/internal/dispatch"
	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/id"
	"parley/shared/imageinfo"
	"parley/shared/outbound"
	"parley/shared/store/agentdb"
	"parley/shared/store/blobdb"
	"parley/shared/store/rundb"
)

// maxName is the maximum length of a file's name in characters. Longer names are truncated by
// domain.CleanName.
const maxName = 255

// Templates reads templates, whose models a submission may use. ByID returns not_found if there is
// no such template.
type Templates interface {
	ByID(ctx context.Context, templateID string) (domain.Template, error)
}

// Deps are the dependencies and settings of Files. They are set once and never change.
type Deps struct {
	// Contents and uploads.
	BlobsDB *blobdb.Store
	// Principals of the runs to which files belong.
	RunsDB *rundb.Store
	// Models of the agents that get attachments.
	AgentsDB     *agentdb.Store
	Templates    Templates
	Client       *outbound.Client // fetches URLs
	DefaultModel string           // model of agents that name none
	// FilesPerOrganization is the maximum total size of an organization's files, in bytes; 0: no
	// limit.
	FilesPerOrganization int64
}

// Files stores uploads and attachments. It is safe for concurrent use. A process uses a single
// Files. Contents are stored before the rows that refer to them; the sweeper removes contents to
// which no row refers.
type Files struct {
	Deps

	fetcher *fetcher
}

// New returns Files. If deps.Client is nil, attachments with URLs are rejected.
func New(deps Deps) *Files { return &Files{Deps: deps, fetcher: newFetcher(deps.Client)} }

// errUnsupported is the error for content whose type is not accepted. Its text continues a
// sentence, like the text of a fault.
var errUnsupported = errors.New("is of an unsupported type; supported types are " + Supported)

// Upload stores the content of a file and adds the file to the files of the caller's organization.
// It returns an API error, or the error of reading the content. name and declared are the name and
// the media type as the client sent them; both may be empty. sessionID is the session for which the
// file is uploaded, or "". The errors are payload_too_large, unsupported_media_type,
// invalid_request for a faulty image, and those of the quotas. Nothing stays stored after an error.
func (f *Files) Upload(ctx context.Context, who domain.Caller, sessionID, name, declared string, content io.Reader) (domain.File, error) {
	if who.Visitor.ID != "" {
		if err := f.checkVisitor(ctx, who, sessionID); err != nil {
			return domain.File{}, err
		}
	}

	// Store the content before its type is known, because the content is read as a stream.
	stored, kind, err := f.store(ctx, who.OrganizationID, name, declared, content)
	switch {
	case errors.Is(err, blobdb.ErrTooLarge):
		e := apierr.Wrap(apierr.PayloadTooLarge, err, "a file must have at most %d bytes", domain.MaxAttachmentBytes)
		return domain.File{}, e
	case errors.Is(err, errUnsupported):
		return domain.File{}, apierr.Wrap(apierr.UnsupportedMediaType, err, "the file %s", err.Error())
	case isFault(err):
		return domain.File{}, apierr.Invalid("file", "invalid_value", "%s", err.Error())
	case err != nil:
		return domain.File{}, err
	}

	file := domain.File{ID: id.New(id.File), Name: named(name, kind), MIMEType: kind, Bytes: stored.Bytes}

	// Only the row makes the content a file. The quota is checked in the same transaction.
	err = f.BlobsDB.AddUpload(ctx, who.OrganizationID, blobdb.NewUpload{
		ID: file.ID, Principal: who.Principal(), SessionID: sessionID, AgentID: who.Visitor.AgentID,
		Name: file.Name, MIMEType: kind, Content: stored,
	}, f.FilesPerOrganization)
	if err != nil {
		_ = f.BlobsDB.DropUploads(ctx, who.OrganizationID, []blobdb.Upload{stored}) // if this fails, the sweeper removes the content later
		return domain.File{}, full(err)
	}
	return file, nil
}

// checkVisitor returns an error if a widget's visitor may not upload now. A visitor's upload
// belongs to one session, so that it is erased with that session. The check comes before the
// content is received, so that a visitor whose quota is exhausted transfers nothing.
func (f *Files) checkVisitor(ctx context.Context, who domain.Caller, sessionID string) error {
	if sessionID == "" {
		return apierr.Invalid("sessionId", "required", "is required, because visitors upload files for a session")
	}
	return full(f.BlobsDB.CheckVisitor(ctx, who.OrganizationID, who.Principal(), f.FilesPerOrganization))
}

// full converts the error of an exceeded quota to an API error. A visitor gets rate_limited with a
// Retry-After, because older uploads are deleted automatically. An organization gets budget_exceeded.
// Other errors, and nil, are returned unchanged.
func full(err error) error {
	if visitor, ok := errors.AsType[*blobdb.VisitorFullError](err); ok {
		e := apierr.Wrap(apierr.RateLimited, err, "upload quota of the visitor exceeded (%d files or %d bytes); each upload is deleted after %s",
			blobdb.VisitorUploads, blobdb.VisitorBytes, blobdb.VisitorUploadLife)
		e.RetryAfter = visitor.Wait
		return e
	}
	if errors.Is(err, blobdb.ErrFilesFull) {
		return apierr.Wrap(apierr.BudgetExceeded, err, "file quota of the organization exceeded; erase sessions or raise FILES_PER_ORGANIZATION")
	}
	return err
}

// store stores content and checks its type. It returns a fault if the type is not acceptable; see
// isFault. The content may have at most domain.MaxAttachmentBytes; otherwise the error is
// blobdb.ErrTooLarge. After an error, the content is removed.
func (f *Files) store(ctx context.Context, org, name, declared string, content io.Reader) (blobdb.Upload, string, error) {
	stored, err := f.BlobsDB.Upload(ctx, org, content, domain.MaxAttachmentBytes)
	if err != nil {
		return stored, "", err
	}

	kind, err := f.check(ctx, org, name, declared, stored)
	if err != nil {
		_ = f.BlobsDB.DropUploads(ctx, org, []blobdb.Upload{stored}) // if this fails, the sweeper removes the content later
	}
	return stored, kind, err
}

// check returns the media type of stored content, or a fault if the type is not acceptable. It
// reads at most headBytes of the content, and the header of an image. An image must have a header
// with supported dimensions.
func (f *Files) check(ctx context.Context, org, name, declared string, stored blobdb.Upload) (string, error) {
	if stored.Bytes == 0 {
		return "", fault("is empty")
	}

	content := f.BlobsDB.OpenBlob(ctx, org, stored.Hash, stored.Bytes)
	defer func() { _ = content.Close() }() // the content is only read, so an error of Close loses nothing

	head := make([]byte, min(stored.Bytes, headBytes))
	if _, err := io.ReadFull(content, head); err != nil {
		return "", fmt.Errorf("reading the beginning of a file: %w", err)
	}
	kind := mediaType(name, declared, head)
	if kind == "" {
		return "", errUnsupported
	}
	if !imageinfo.IsImage(kind) {
		return kind, nil
	}

	// The beginning is in memory already. An image's header may be longer than that.
	_, err := imageinfo.Read(io.MultiReader(bytes.NewReader(head), content))
	return kind, err
}

// fault is a problem of a file's content. Its text continues a sentence that begins with the name
// of the request's field. A fault is returned only for content that the client can replace.
type fault string

// Error returns the text of the fault. It contains neither the content nor a URL.
func (f fault) Error() string { return string(f) }

// isFault reports whether an error is a fault of the content, and not a failure of the service. nil
// is not a fault. The errors of package imageinfo describe damaged or too large images.
func isFault(err error) bool {
	return errors.As(err, new(fault)) || errors.Is(err, errUnsupported) ||
		errors.Is(err, imageinfo.ErrDamaged) || errors.Is(err, imageinfo.ErrPixels) || errors.Is(err, imageinfo.ErrFormat)
}

// extensionFor maps media types to the extensions that files without a name get. Types that are not
// listed, except archives, get ".txt".
var extensionFor = map[string]string{
	imageinfo.PNG: ".png", imageinfo.JPEG: ".jpg", imageinfo.WebP: ".webp", imageinfo.GIF: ".gif", pdfType: ".pdf",
	"text/html": ".html", "text/markdown": ".md", "text/csv": ".csv", "application/json": ".json",
}

// named returns the cleaned name of a file. A file without a name gets a name that suits its type.
// kind is the detected media type. The result has at most maxName characters and contains no path.
func named(name, kind string) string {
	if name = domain.CleanName(name, maxName); name != "" {
		return name
	}
	for extension, is := range archives {
		if is == kind {
			return "file" + extension
		}
	}
	if extension, known := extensionFor[kind]; known {
		return "file" + extension
	}
	return "file.txt"
}

// Resolve stores the attachments of a submission. An error names the field of the request that
// contains the faulty attachment. The submission is not accepted yet, so after an error all stored
// contents are removed. The result is in the order of the request, with a new file id for each
// attachment and unique names. Demo callers, and visitors of widgets that permit no attachments,
// get permission errors.
func (f *Files) Resolve(ctx context.Context, s *dispatch.Submission) ([]blobdb.NewAttachment, error) {
	switch {
	case s.Caller.Visitor.ID != "" && !s.Caller.Visitor.Attachments:
		return nil, apierr.New(apierr.PermissionDenied, "the agent's widget does not accept attachments")
	case s.Caller.Kind == domain.CallerDemo:
		return nil, apierr.New(apierr.DemoRestricted, "the demo does not accept attachments")
	}
	if len(s.Attachments) > domain.MaxAttachments {
		return nil, apierr.Invalid("attachments", "too_long", "must have at most %d elements", domain.MaxAttachments)
	}

	out := make([]blobdb.NewAttachment, 0, len(s.Attachments))
	for _, asked := range s.Attachments {
		if s.Caller.Visitor.ID != "" && asked.FileID == "" {
			return nil, apierr.Invalid(asked.Field, "invalid_value", "must be a fileId; visitors can attach only files that they have uploaded")
		}
		found, err := f.resolve(ctx, s, asked)
		if err != nil {
			f.drop(ctx, s, out)
			return nil, err
		}

		// Each use of a file gets its own id, which belongs to the new run.
		found.FileID = id.New(id.File)
		out = append(out, found)
	}

	// The model is checked last, because it matters only if there is an image.
	if err := f.checkModel(ctx, s, out); err != nil {
		f.drop(ctx, s, out)
		return nil, err
	}
	uniqueNames(out)
	return out, nil
}

// drop removes stored contents that nothing else refers to. It removes only contents to which no
// file refers, so existing files that the request attaches stay.
func (f *Files) drop(ctx context.Context, s *dispatch.Submission, files []blobdb.NewAttachment) {
	uploads := make([]blobdb.Upload, len(files))
	for i, file := range files {
		uploads[i] = blobdb.Upload{Hash: file.Hash, Bytes: file.Bytes}
	}
	_ = f.BlobsDB.DropUploads(ctx, s.Caller.OrganizationID, uploads) // if this fails, the sweeper removes the contents later
}

// resolve stores one attachment, or finds the existing file that the attachment refers to. An error
// is an API error that names the field, or a failure of the service. The content comes from the
// field data, from a URL, or from an existing file.
func (f *Files) resolve(ctx context.Context, s *dispatch.Submission, asked dispatch.Attachment) (blobdb.NewAttachment, error) {
	org := s.Caller.OrganizationID
	var stored blobdb.Upload
	var kind string
	var err error
	name := asked.Name
	at := "data"
	switch {
	case asked.FileID != "":
		return f.find(ctx, s, asked)
	case asked.URL != "":
		// The name in the request takes precedence over the name of the response.
		at = "url"
		err = f.fetcher.fetch(ctx, org, asked.URL, func(fetched string, declared string, body io.Reader) (err error) {
			if name == "" {
				name = fetched
			}
			stored, kind, err = f.store(ctx, org, name, declared, body)
			return err
		})
	default:
		stored, kind, err = f.store(ctx, org, name, asked.MediaType, bytes.NewReader(asked.Data))
	}

	switch {
	case errors.Is(err, blobdb.ErrTooLarge), errors.Is(err, outbound.ErrTooLarge):
		return blobdb.NewAttachment{}, tooLarge(asked.At(at), name)
	case isFault(err):
		return blobdb.NewAttachment{}, apierr.Invalid(asked.At(at), "invalid_value", "%s", err.Error())
	case err != nil:
		return blobdb.NewAttachment{}, err
	}
	return blobdb.NewAttachment{
		Attachment: domain.Attachment{Name: named(name, kind), MediaType: kind, Bytes: stored.Bytes}, Hash: stored.Hash,
	}, nil
}

// tooLarge returns the error for an attachment that has too many bytes. name is empty if the file
// has no name.
func tooLarge(field, name string) error {
	file := "the file"
	if name = domain.CleanName(name, maxName); name != "" {
		file += " " + strconv.Quote(name)
	}
	return apierr.Invalid(field, "too_long", "%s must have at most %d bytes", file, domain.MaxAttachmentBytes)
}

// find finds an existing file that the caller may read: either an upload or a file of a run. The
// error does not reveal whether a file exists that the caller may not read. The result refers to
// the same content, so nothing is copied.
func (f *Files) find(ctx context.Context, s *dispatch.Submission, asked dispatch.Attachment) (blobdb.NewAttachment, error) {
	missing := apierr.Invalid(asked.At("fileId"), "invalid_value", "is not the id of a file that you can attach here")
	if !id.Valid(id.File, asked.FileID) {
		return blobdb.NewAttachment{}, missing
	}

	org := s.Caller.OrganizationID
	file, err := f.BlobsDB.AttachableFile(ctx, org, asked.FileID)
	if apierr.CodeFor(err) == apierr.NotFound {
		return blobdb.NewAttachment{}, missing
	}
	if err != nil {
		return blobdb.NewAttachment{}, err
	}

	owner, err := f.owner(ctx, org, &file)
	if err != nil {
		return blobdb.NewAttachment{}, err
	}

	// A file that was uploaded for a session may be used only in that session, and a visitor's file
	// only with the same agent.
	elsewhere := file.SessionID != "" && file.SessionID != s.SessionID || file.AgentID != s.Caller.Visitor.AgentID
	if owner == "" || elsewhere || !s.Caller.MayRead(owner) {
		return blobdb.NewAttachment{}, missing
	}

	// Files that an agent's code created have not been checked yet.
	stored := blobdb.Upload{Hash: file.Hash, Bytes: file.Bytes}
	kind, err := f.check(ctx, org, file.Name, file.MIMEType, stored)
	switch {
	case file.Bytes > domain.MaxAttachmentBytes:
		return blobdb.NewAttachment{}, tooLarge(asked.At("fileId"), file.Name)
	case isFault(err):
		return blobdb.NewAttachment{}, apierr.Invalid(asked.At("fileId"), "invalid_value", "%s", err.Error())
	case err != nil:
		return blobdb.NewAttachment{}, err
	}
	return blobdb.NewAttachment{
		Attachment: domain.Attachment{Name: named(file.Name, kind), MediaType: kind, Bytes: file.Bytes}, Hash: file.Hash,
		AgentID: file.AgentID,
	}, nil
}

// owner returns the principal who uploaded the file, or the principal of the file's run. It returns
// "" if the run was deleted or erased. A file of a run belongs to the caller of that run.
func (f *Files) owner(ctx context.Context, org string, file *blobdb.Attachable) (string, error) {
	if file.RunID == "" {
		return file.Principal, nil
	}
	run, err := f.RunsDB.ShortRun(ctx, org, "", file.RunID)
	if apierr.CodeFor(err) == apierr.NotFound || err == nil && run.Erased {
		return "", nil
	}
	return run.Principal, err
}

// checkModel returns an error if a submission has an image and its model is known not to accept
// images. A model that is not known to reject images is accepted; the provider then reports the
// problem. The error names the first image.
func (f *Files) checkModel(ctx context.Context, s *dispatch.Submission, files []blobdb.NewAttachment) error {
	at := -1
	for i := range files {
		if files[i].IsImage() {
			at = i
			break
		}
	}
	if at < 0 {
		return nil
	}

	model, err := f.model(ctx, s)
	if err != nil || domain.TakesImages(model) {
		return err
	}
	asked := s.Attachments[at]
	return apierr.Invalid(asked.At(""), "invalid_value", "is an image, but the model %s does not accept images", model)
}

// model returns the first model of the submission's target. It returns "" if the target does not
// exist; the acceptance of the run reports that error. Fallback models are not considered. If the
// agent or template has no model, the result is the service's default model.
func (f *Files) model(ctx context.Context, s *dispatch.Submission) (model string, err error) {
	if s.TemplateID != "" {
		var template domain.Template
		template, err = f.Templates.ByID(ctx, s.TemplateID)
		model = template.Model
	} else {
		var agent domain.Agent
		agent, err = f.AgentsDB.Agent(ctx, s.Caller.OrganizationID, s.AgentID)
		model = agent.Model
	}
	if apierr.CodeFor(err) == apierr.NotFound {
		return "", nil
	}
	if model == "" {
		model = f.DefaultModel
	}
	return model, err
}

// uniqueNames renames files that have the name of another file, because the names of a run's files
// must be unique. It adds a number before the extension, as in "report (2).pdf". The first file
// keeps its name.
func uniqueNames(files []blobdb.NewAttachment) {
	taken := map[string]bool{}
	for i := range files {
		name := files[i].Name
		extension := path.Ext(name)
		for n := 2; taken[name]; n++ {
			name = strings.TrimSuffix(files[i].Name, extension) + " (" + strconv.Itoa(n) + ")" + extension
		}
		taken[name] = true
		files[i].Name = name
	}
}
