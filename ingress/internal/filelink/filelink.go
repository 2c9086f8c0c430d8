// Package filelink creates and reads links with which anyone can open one file for a limited time,
// without a credential. A link is signed, names the organization and the file, and stops working
// when it expires or the file is erased.
package filelink

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"parley/shared/id"
)

// Path is the path of links. The token is a query parameter and not part of the path, because paths
// are logged.
const Path = "/files"

// Token is the name of the query parameter that contains the token.
const Token = "token"

// ErrInvalid is the error for a link that has expired or was not signed by this service.
var ErrInvalid = errors.New("the link is invalid or has expired")

// purpose is part of each signature, so that other things that the service has signed are not
// accepted as links.
const purpose = "parley file link v1"

// step is the unit to which expiry times are rounded. All links to one file that are created within
// a step are equal. Therefore the replay of an answer equals the original.
const step = time.Hour

// Signer signs claims, together with a body, and checks such signatures.
type Signer interface {
	Sign(claims, body []byte) string
	Verify(token string, body []byte) (claims []byte, err error)
}

// Links creates and reads links. It is safe for concurrent use.
type Links struct {
	signer  Signer
	baseURL string // URL at which browsers reach the service, without a trailing slash
	life    time.Duration
	now     func() time.Time
}

// New returns a Links. Its links work for at least the time in the argument life, and for at most
// an hour longer. If life is 0, there are no links: URL returns "", and Read rejects links that
// were created earlier.
func New(signer Signer, baseURL string, life time.Duration, now func() time.Time) *Links {
	return &Links{signer: signer, baseURL: baseURL, life: life, now: now}
}

// URL returns a link to a file of an organization.
func (l *Links) URL(org, fileID string) string {
	if l.life == 0 {
		return ""
	}

	// The expiry is rounded up, so that the link works for at least life.
	expires := l.now().Add(l.life).Truncate(step).Add(step)
	claims := fmt.Sprintf("%s %s %d", org, fileID, expires.Unix())
	return l.baseURL + Path + "?" + url.Values{Token: {l.signer.Sign([]byte(claims), []byte(purpose))}}.Encode()
}

// Read returns the organization and the file that a link's token names. It returns ErrInvalid if
// the token is not valid now.
func (l *Links) Read(token string) (org, fileID string, err error) {
	claims, err := l.signer.Verify(token, []byte(purpose))
	if err != nil || l.life == 0 {
		return "", "", ErrInvalid
	}

	// The signature is valid, but the claims may come from a later release and have another form.
	parts := strings.Split(string(claims), " ")
	if len(parts) != 3 || !id.Valid(id.File, parts[1]) {
		return "", "", ErrInvalid
	}
	expires, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || !l.now().Before(time.Unix(expires, 0)) {
		return "", "", ErrInvalid
	}
	return parts[0], parts[1], nil
}
