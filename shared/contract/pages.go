package contract

import (
	"time"

	"parley/shared/domain"
)

// KindPages is the kind of tool call with which ingresses request pictures of the pages of
// documents.
const KindPages = "pages"

// PageClaims contains the verified data of the capability for a picture: the organization, one page
// of one of its documents, and the expiry. The request has no body.
type PageClaims struct {
	OrganizationID string    `json:"org"`
	DocumentID     string    `json:"doc"`
	SHA256         string    `json:"sha256"` // SHA-256 of the document's content, in hex
	Page           int       `json:"page"`   // page number, from 1
	Kind           string    `json:"kind"`   // KindPages
	Expires        time.Time `json:"expires"`
}

// Bounds returns the organization and kind of request for which the claims were signed, and when
// they expire.
func (c PageClaims) Bounds() (org, kind string, expires time.Time) {
	return c.OrganizationID, c.Kind, c.Expires
}

// PageReply is the reply to a request for a picture of a page. One of its fields is set.
type PageReply struct {
	Picture *domain.PagePicture `json:"picture,omitempty"`
	// Failure is the reason why the page has no picture, as a sentence for the user.
	Failure string `json:"failure,omitempty"`
	// Unavailable means that another attempt may succeed.
	Unavailable bool `json:"unavailable,omitempty"`
}
