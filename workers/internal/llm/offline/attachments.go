package offline

import (
	"fmt"
	"regexp"
	"strings"

	"parley/workers/internal/llm"
)

// maxDescribed is the maximum number of attachments that an answer describes.
const maxDescribed = 10

// asksForFiles matches messages that refer to the attachments of earlier messages.
var asksForFiles = regexp.MustCompile(`(?i)\b(?:images?|pictures?|photos?|screenshots?|files?|documents?|attach(?:ed|ments?)?|pages?|pdf)\b`)

// attachmentsFor returns the attachments to which a message refers. Usually, these are the
// message's own attachments. If the message has no attachments but mentions files, attachmentsFor
// returns the attachments of the last earlier message that has some.
func attachmentsFor(messages []llm.Message, at int) []llm.Attachment {
	if len(messages[at].Attachments) > 0 || !asksForFiles.MatchString(messages[at].Text) {
		return messages[at].Attachments
	}
	// Only the newest files are considered, because "the picture" usually means the last one.
	for i := at - 1; i >= 0; i-- {
		if len(messages[i].Attachments) > 0 {
			return messages[i].Attachments
		}
	}
	return nil
}

// looksAt reports whether the answer describes attachments instead of requesting tools. If the
// message contains a program, the program is executed instead and can open the files.
func (p prompt) looksAt() bool { return len(p.attachments) > 0 && !codeBlock.MatchString(p.message) }

// fromAttachments describes the attachments: their types and sizes, the text in each image, and the
// sentences of each document that answer the message.
func (p prompt) fromAttachments() string {
	if !p.looksAt() {
		return ""
	}
	lines := []string{"I see these attachments:"}
	found := llm.ToolResult{}
	for _, a := range p.attachments[:min(len(p.attachments), maxDescribed)] {
		lines = append(lines, "- "+describe(a))
		found.Sources = append(found.Sources, a.Passages...)
	}
	// Without text in the attachments, the description is the whole answer.
	text := strings.Join(lines, "\n")

	if len(found.Sources) == 0 {
		return text
	}
	if answer := fromSources([]llm.ToolResult{found}, parseQuestion(p.message)); answer != "" {
		return text + "\n\n" + answer
	}
	// If no sentence answers the message, show at least that the text was read.
	first := found.Sources[0]
	sentence := firstSentence(withoutMarkers(first.CitedText))
	return text + "\n\nThe text begins: " + excerpt(sentence, quotedText) + " " + mark(first.ID, exact(sentence))
}

// describe returns a description of one attachment.
func describe(a llm.Attachment) string {
	name := withoutMarkers(a.Name)
	switch {
	case a.Image != nil && a.Recognized != "":
		return fmt.Sprintf("%s: %s, %d × %d pixels, %d bytes. Text in it: “%s”", name, a.MediaType, a.Width, a.Height, a.Bytes,
			excerpt(withoutMarkers(strings.Join(strings.Fields(a.Recognized), " ")), quotedText))
	case a.Image != nil:
		return fmt.Sprintf("%s: %s, %d × %d pixels, %d bytes. I found no text in it.", name, a.MediaType, a.Width, a.Height, a.Bytes)
	case len(a.Passages) == 0 && a.Omitted != "":
		return fmt.Sprintf("%s: %s, %d bytes (%s).", name, a.MediaType, a.Bytes, a.Omitted)
	}

	// The number of pages is known only from the passages.
	pages := 0
	for _, passage := range a.Passages {
		if passage.Page != nil {
			pages = max(pages, *passage.Page)
		}
	}
	if pages > 0 {
		return fmt.Sprintf("%s: %s, %d pages, %d bytes.", name, a.MediaType, pages, a.Bytes)
	}
	return fmt.Sprintf("%s: %s, %d bytes.", name, a.MediaType, a.Bytes)
}
