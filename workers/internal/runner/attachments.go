package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"parley/shared/apierr"
	"parley/shared/domain"
	"parley/shared/imageinfo"
	"parley/shared/store/blobdb"
	"parley/shared/store/lease"
	"parley/shared/store/sessiondb"
	"parley/shared/truncate"
	"parley/workers/internal/agentloop"
	"parley/workers/internal/llm"
	"parley/workers/internal/picture"
	"parley/workers/internal/tool"
	"parley/workers/internal/tool/attachment"
	"parley/workers/internal/toolset"
)

// CodeAttachment is the error code of a run whose attachment cannot be used.
const CodeAttachment = "attachment_unreadable"

const (
	// Limits on the images of a prompt. Images of the message take precedence over images of
	// earlier turns, and images of newer turns take precedence over images of older turns.
	ownImageBytes     = 20 << 20
	earlierImages     = 10
	earlierImageBytes = 8 << 20

	maxEarlier    = 50   // maximum number of earlier turns' attachments that are looked up
	passageBytes  = 1200 // maximum size of a passage, which is cited as one source
	bytesPerToken = 3    // estimated bytes per token; see llm.EstimateTokens
	atOnce        = 4    // maximum number of a run's attachments that are prepared simultaneously
)

// Notes for the model that say why an attachment is left out of its prompt.
const (
	noteOlder   = "omitted: the attachments of newer messages use up the space"
	noteImages  = "omitted: the images of the message are too large in total"
	noteErased  = "the file no longer exists"
	noteTooLong = "the text is too long; the rest is omitted"
)

// Attachments reads the attachments of runs. Package blobdb implements it. A file may be erased
// between two calls; OpenFile and SourceByID then fail with the code not_found.
type Attachments interface {
	// HoldAttachments assigns the run's attachments to its session, and returns the attachments
	// among ids that exist. The result kept is false if the run no longer belongs to this worker.
	HoldAttachments(ctx context.Context, held lease.Held, ids []string) (files []blobdb.StoredAttachment, kept bool, err error)
	OpenFile(ctx context.Context, org, id string) (domain.File, io.ReadSeekCloser, error)
	SourceByID(ctx context.Context, org, id string) (domain.Source, error)
}

// attachmentLoader loads the attachments of one run's prompt. It belongs to one attempt. The images
// are in memory only after memory was reserved for them.
type attachmentLoader struct {
	r   *Runner
	a   *attempt
	run toolset.Run
	// files contains the records of the attachments that exist, by file id.
	files map[string]blobdb.StoredAttachment
	text  int  // bytes of documents' text that still fit into the prompt
	blind bool // the model cannot see images, so their text must be recognized
}

// attach adds the attachments of the message to the input, and those of earlier turns to the
// history. It changes the arguments in and history. The argument earlier contains the turns with
// attachments, newest first.
//
// The caller must release the returned reservation. The reservation is nil if no memory was
// reserved. An attachment of the message that cannot be used fails the run with CodeAttachment. An
// attachment of an earlier turn is omitted with a note.
func (r *Runner) attach(
	ctx context.Context, a *attempt, run toolset.Run, in *agentloop.Input, own []domain.Attachment, earlier []earlierTurn,
	history []agentloop.Turn,
) (*inputTurn, error) {
	if len(own) == 0 && len(earlier) == 0 {
		return nil, nil //nolint:nilnil // nothing was reserved
	}

	model := in.Model.Info()
	l := &attachmentLoader{
		r: r, a: a, run: run, text: model.ContextTokens / 2 * bytesPerToken, blind: strings.HasPrefix(model.Name, "offline"),
	}
	if err := l.prepare(ctx, own, earlier); err != nil {
		return nil, err
	}

	room, err := r.images.enter(ctx, a.claim.OrganizationID, l.imageBytes(own, earlier))
	if err != nil {
		return nil, err
	}
	if err := l.load(ctx, in, own, earlier, history); err != nil {
		r.images.leave(room)
		return nil, err
	}
	return room, nil
}

// earlierTurn contains the attachments of an earlier turn. The field n is the index of the turn's
// exchange in the history.
type earlierTurn struct {
	n    int
	list []domain.Attachment
}

// earlierAttachments returns the attachments of the turns in the history, newest turn first. It
// stops after the turn with which there are at least maxEarlier attachments. For each turn, the
// argument at contains the index of the turn's exchange in the history, or a negative number if the
// history omits the turn.
func earlierAttachments(turns []sessiondb.Turn, at []int) (out []earlierTurn, err error) {
	total := 0
	for i := len(turns) - 1; i >= 0 && total < maxEarlier; i-- {
		if at[i] < 0 {
			continue
		}
		list, err := turns[i].Attachments()
		if err != nil {
			return nil, err
		}
		if len(list) > 0 {
			out = append(out, earlierTurn{n: at[i], list: list})
			total += len(list)
		}
	}
	return out, nil
}

// prepare reads the records of all attachments, and prepares those of the run's own message that
// are not prepared yet. A tool worker prepares them in its sandbox. Afterwards l.files is up to
// date.
func (l *attachmentLoader) prepare(ctx context.Context, own []domain.Attachment, earlier []earlierTurn) error {
	ids := make([]string, 0, len(own))
	for _, f := range own {
		ids = append(ids, f.FileID)
	}
	for _, t := range earlier {
		for _, f := range t.list {
			ids = append(ids, f.FileID)
		}
	}
	if err := l.find(ctx, ids); err != nil {
		return err
	}

	asked, err := l.prepareOwn(ctx, own)
	if err != nil || !asked {
		return err
	}
	return l.find(ctx, ids)
}

// find reads the records of the attachments with the given ids into l.files. It returns errTaken if
// the run no longer belongs to this worker.
func (l *attachmentLoader) find(ctx context.Context, ids []string) error {
	found, kept, err := l.r.attachments.HoldAttachments(ctx, l.a.claim.Held(), ids)
	if err != nil {
		return retryable(err)
	}
	if !kept {
		return errTaken
	}
	l.files = make(map[string]blobdb.StoredAttachment, len(found))
	for _, f := range found {
		l.files[f.ID] = f
	}
	return nil
}

// prepareOwn prepares the message's attachments, several at once. The result asked is true if any
// attachment had to be prepared. The first error cancels the other preparations. When prepareOwn
// returns, no preparation is running.
func (l *attachmentLoader) prepareOwn(ctx context.Context, own []domain.Attachment) (asked bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, atOnce)
	var working sync.WaitGroup
	for _, f := range own {
		stored, exists := l.files[f.FileID]
		if !exists {
			cancel(unusable(fmt.Sprintf("The attachment %q no longer exists.", f.Name), nil))
			break
		}
		recognize := l.blind && imageinfo.IsImage(f.MediaType) && stored.TextID == ""
		if stored.Prepared != "" && !recognize {
			continue
		}
		asked = true
		working.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := l.r.tools.PrepareAttachment(ctx, l.run, attachment.Arguments{FileID: f.FileID, Recognize: recognize}); err != nil {
				cancel(prepareError(err))
			}
		})
	}
	working.Wait()
	if ctx.Err() != nil {
		return asked, context.Cause(ctx)
	}
	return asked, nil
}

// unusable returns the error with which a run fails if one of its attachments cannot be used.
func unusable(message string, err error) *agentloop.Error {
	return &agentloop.Error{Code: CodeAttachment, Message: message, Err: err}
}

// prepareError converts an error of PrepareAttachment to the error with which the attempt ends.
func prepareError(err error) error {
	var failed *tool.Error
	if errors.As(err, &failed) && !failed.Retryable {
		return unusable(failed.Message, err)
	}
	return retryable(err)
}

// imageBytes returns an upper bound of the total size of the images that load reads, in bytes.
func (l *attachmentLoader) imageBytes(own []domain.Attachment, earlier []earlierTurn) int {
	n := 0
	for _, f := range own {
		if stored := l.files[f.FileID]; imageinfo.IsImage(f.MediaType) {
			n += int(stored.Bytes)
		}
	}
	for _, t := range earlier {
		for _, f := range t.list {
			if stored := l.files[f.FileID]; imageinfo.IsImage(f.MediaType) {
				n += int(min(stored.Bytes, picture.MaxBytes))
			}
		}
	}
	return min(n, ownImageBytes+earlierImageBytes)
}

// load reads the attachments of the message, then those of earlier turns, newest turn first. Memory
// for the images must be reserved.
func (l *attachmentLoader) load(
	ctx context.Context, in *agentloop.Input, own []domain.Attachment, earlier []earlierTurn, history []agentloop.Turn,
) (err error) {
	images := imageRoom{count: len(own), bytes: ownImageBytes, note: noteImages}
	if in.Attachments, err = l.loadAll(ctx, own, &images); err != nil {
		return err
	}

	images = imageRoom{count: earlierImages, bytes: earlierImageBytes, note: noteOlder}
	for _, t := range earlier {
		loaded, err := l.loadAll(ctx, t.list, &images)
		if err != nil {
			return err
		}
		history[t.n].Messages[0].Attachments = loaded
	}
	return nil
}

// imageRoom is the space that is left for images in a prompt.
type imageRoom struct {
	count int    // number of images that may still be added
	bytes int64  // number of bytes that may still be added
	note  string // text for the model with the reason why an image was omitted
}

// loadAll reads a message's attachments, in order. The argument images is the room for images,
// which loadAll reduces. An attachment that no longer exists, or whose content does not fit
// completely, has a note in its field Omitted.
func (l *attachmentLoader) loadAll(ctx context.Context, list []domain.Attachment, images *imageRoom) ([]llm.Attachment, error) {
	out := make([]llm.Attachment, 0, len(list))
	for _, f := range list {
		one := llm.Attachment{Name: f.Name, MediaType: f.MediaType, Bytes: f.Bytes}
		stored, exists := l.files[f.FileID]
		var err error
		switch {
		case !exists || stored.Prepared == "":
			one.Omitted = noteErased
		case imageinfo.IsImage(f.MediaType):
			err = l.loadImage(ctx, stored, &one, images)
		default:
			err = l.loadText(ctx, stored, &one)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// loadImage reads the converted copy of an image into the argument to. Models never receive the
// uploaded original. For a model that cannot see images, loadImage also adds the recognized text.
func (l *attachmentLoader) loadImage(ctx context.Context, stored blobdb.StoredAttachment, to *llm.Attachment, room *imageRoom) error {
	if room.count == 0 || stored.Bytes > room.bytes || stored.Bytes > picture.MaxBytes {
		to.Omitted = room.note
		return nil
	}
	room.count--
	room.bytes -= stored.Bytes

	_, content, err := l.r.attachments.OpenFile(ctx, l.a.claim.OrganizationID, stored.ID)
	if err == nil {
		to.Image, err = io.ReadAll(content)
		_ = content.Close() // ignore the error: the file was only read, so no data can be lost
	}
	if err != nil {
		return gone(err, to)
	}
	// The size of the image is optional, so an error is ignored.
	if info, err := imageinfo.Read(strings.NewReader(string(to.Image[:min(len(to.Image), 64<<10)]))); err == nil {
		to.ImageType, to.Width, to.Height = stored.Prepared, info.Width, info.Height
	}

	if l.blind && stored.TextID != "" {
		source, err := l.r.attachments.SourceByID(ctx, l.a.claim.OrganizationID, stored.TextID)
		if err != nil {
			return gone(err, to)
		}
		to.Recognized = source.Text
	}
	return nil
}

// loadText reads the text of a document and divides it into passages. It omits the passages that
// exceed the remaining size l.text.
func (l *attachmentLoader) loadText(ctx context.Context, stored blobdb.StoredAttachment, to *llm.Attachment) error {
	if l.text <= 0 {
		to.Omitted = noteOlder
		return nil
	}
	source, err := l.r.attachments.SourceByID(ctx, l.a.claim.OrganizationID, stored.TextID)
	if err != nil {
		return gone(err, to)
	}

	for _, p := range newPassages(source, to.Name) {
		if l.text -= len(p.CitedText); l.text < 0 {
			to.Omitted = noteTooLong
			break
		}
		to.Passages = append(to.Passages, p)
	}
	if source.Truncated {
		to.Omitted = noteTooLong
	}
	return nil
}

// gone handles an error of reading an attachment. If the file was erased in the meantime, gone
// marks the attachment as omitted and returns nil. It returns any other error as retryable.
func gone(err error, to *llm.Attachment) error {
	if apierr.CodeFor(err) == apierr.NotFound {
		to.Image, to.Omitted = nil, noteErased
		return nil
	}
	return retryable(err)
}

// pageMark matches the mark that begins each page in the text of a document; see package
// attachment.
var pageMark = regexp.MustCompile(`\f\[page (\d+)\]\n`)

// newPassages divides the text of a document into passages, whose title is the argument name. No
// passage extends over two pages. Passages have page numbers if the document has pages.
func newPassages(source domain.Source, name string) []domain.Citation {
	var out []domain.Citation
	add := func(page *int, text string) {
		for text = strings.TrimSpace(text); text != ""; {
			n := passageEnd(text)
			id := source.ID
			out = append(out, domain.Citation{
				Type: "document", Title: name, CitedText: strings.TrimSpace(text[:n]), Page: page, SourceID: &id,
			})
			text = strings.TrimSpace(text[n:])
		}
	}

	text := "\f" + strings.TrimPrefix(source.Text, "\f") // the mark of the first page may have lost its form feed
	marks := pageMark.FindAllStringSubmatchIndex(text, -1)
	if len(marks) == 0 {
		add(nil, text[1:])
		return out
	}
	add(nil, strings.Trim(text[:marks[0][0]], "\f"))
	for i, m := range marks {
		end := len(text)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		number, err := strconv.Atoi(text[m[2]:m[3]])
		page := &number
		if err != nil || number == 0 {
			page = nil
		}
		add(page, text[m[1]:end])
	}
	return out
}

// passageEnd returns the length of the next passage in bytes. The passage ends after the last
// paragraph, line or word that fits into passageBytes.
func passageEnd(text string) int {
	if len(text) <= passageBytes {
		return len(text)
	}
	for _, separator := range []string{"\n\n", "\n", " "} {
		if at := strings.LastIndex(text[:passageBytes], separator); at > passageBytes/3 {
			return at
		}
	}
	return len(truncate.Bytes(text, passageBytes))
}
