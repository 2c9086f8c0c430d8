package httpx

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"parley/shared/apierr"
	"parley/shared/store/pg"
	"parley/shared/store/sealdb"
)

// SocketVersion is the supported version of the WebSocket protocol.
const SocketVersion = "13"

// Problem is the body of an error response (RFC 9457). Fail creates it. Programs use the code;
// title and detail are for people.
type Problem struct {
	// Type is the URL of the description of the code. Title is a short text for all errors with the
	// code.
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Explanation of this error; it contains no secrets.
	Detail    string      `json:"detail"`
	Instance  string      `json:"instance"`
	Code      apierr.Code `json:"code"`
	RequestID string      `json:"requestId"`
	Retryable bool        `json:"retryable"`
	// Invalid fields; empty, but never null, for other errors.
	Errors []apierr.Field `json:"errors"`
}

// Kinds maps each error code to its HTTP status and title, and to whether the same request may
// succeed later.
var Kinds = map[apierr.Code]struct {
	Status    int
	Title     string
	Retryable bool
}{
	apierr.InvalidRequest:         {http.StatusBadRequest, "Invalid request", false},
	apierr.OrganizationRequired:   {http.StatusBadRequest, "Organization required", false},
	apierr.ConflictingCredentials: {http.StatusBadRequest, "Conflicting credentials", false},
	apierr.Unauthenticated:        {http.StatusUnauthorized, "Not authenticated", false},
	apierr.APIKeyRequired:         {http.StatusUnauthorized, "API key required", false},
	apierr.PermissionDenied:       {http.StatusForbidden, "Permission denied", false},
	apierr.CallerNotAllowed:       {http.StatusForbidden, "Caller not allowed", false},
	apierr.DemoRestricted:         {http.StatusForbidden, "Not available in demo mode", false},
	apierr.ServerToServerOnly:     {http.StatusForbidden, "Server to server only", false},
	apierr.OrganizationMismatch:   {http.StatusForbidden, "Organization mismatch", false},
	apierr.NotFound:               {http.StatusNotFound, "Not found", false},
	apierr.MethodNotAllowed:       {http.StatusMethodNotAllowed, "Method not allowed", false},
	apierr.VersionConflict:        {http.StatusConflict, "Version conflict", false},
	apierr.Conflict:               {http.StatusConflict, "Conflict", false},
	apierr.PreconditionFailed:     {http.StatusPreconditionFailed, "Precondition failed", false},
	apierr.EmailTaken:             {http.StatusConflict, "Email address taken", false},
	apierr.LastOwner:              {http.StatusConflict, "Last owner", false},
	apierr.LastOrganization:       {http.StatusConflict, "Last organization", false},
	apierr.DocumentExists:         {http.StatusConflict, "Document exists", false},
	apierr.Erased:                 {http.StatusGone, "Erased", false},
	apierr.PayloadTooLarge:        {http.StatusRequestEntityTooLarge, "Payload too large", false},
	apierr.UnsupportedMediaType:   {http.StatusUnsupportedMediaType, "Unsupported media type", false},
	apierr.RangeNotSatisfiable:    {http.StatusRequestedRangeNotSatisfiable, "Range not satisfiable", false},
	apierr.IdempotencyKeyReused:   {http.StatusUnprocessableEntity, "Idempotency key reused", false},
	apierr.UpgradeRequired:        {http.StatusUpgradeRequired, "Upgrade required", false},
	apierr.RateLimited:            {http.StatusTooManyRequests, "Rate limited", true},
	apierr.BudgetExceeded:         {http.StatusTooManyRequests, "Budget exceeded", true},
	apierr.Internal:               {http.StatusInternalServerError, "Internal error", false},
	apierr.Overloaded:             {http.StatusServiceUnavailable, "Overloaded", true},
	apierr.Unavailable:            {http.StatusServiceUnavailable, "Unavailable", true},
}

// Fail responds with an error. The response contains the code and the text of an apierr.Error. For
// an unreachable database, the code is unavailable. For any other error, the code is internal, and
// only the log contains the details.
//
// If the error is about the parameters, a precondition or the body, Fail first looks up the
// resource named by the query's id. If the caller may not read the resource, the response is
// not_found instead. Fail sets State.Err for the log. If the response has already begun, Fail does
// not respond. After a call of Fail, the handler must not write.
func Fail(c *gin.Context, err error) {
	c.Abort()
	st := StateFor(c)
	st.Err = err
	if c.Writer.Written() {
		return
	}

	coded := Coded(c, err)

	// If the caller may not read the resource, an error other than not_found must not reveal
	// anything about it.
	if find := st.Find; find != nil && blamesRequest(coded.Code) {
		if hidden := find(); hidden != nil {
			st.Err = hidden
			coded = Coded(c, hidden)
		}
	}

	coded = nameMissing(c, coded)
	kind, known := Kinds[coded.Code]
	if !known {
		coded = internal()
		kind = Kinds[apierr.Internal]
	}

	if kind.Status == http.StatusTooManyRequests || kind.Status == http.StatusServiceUnavailable {
		c.Header("Retry-After", strconv.Itoa(wholeSeconds(coded.RetryAfter)))
	}
	if kind.Status == http.StatusUnauthorized {
		c.Header("WWW-Authenticate", `Bearer realm="parley"`)
	}
	if kind.Status == http.StatusUpgradeRequired {
		c.Header("Upgrade", "websocket")
		c.Header("Connection", "Upgrade")
		c.Header("Sec-WebSocket-Version", SocketVersion)
	}

	// Other protocols have their own error formats.
	if render := st.Render; render != nil {
		render(c, kind.Status, kind.Retryable, coded)
		return
	}

	// A nil slice would be encoded as null, but the response always contains a list.
	fields := coded.Fields
	if fields == nil {
		fields = []apierr.Field{}
	}

	body, err := json.Marshal(Problem{
		Type: "/docs/errors#" + string(coded.Code), Title: kind.Title, Status: kind.Status, Detail: coded.Detail,
		Instance: c.Request.URL.EscapedPath(), Code: coded.Code, RequestID: st.RequestID, Retryable: kind.Retryable, Errors: fields,
	})
	if err != nil {
		c.Status(http.StatusInternalServerError) // unreachable: strings and numbers always have a JSON form
		return
	}

	c.Data(kind.Status, "application/problem+json", body)
}

// blamesRequest reports whether an error code concerns the parameters, a precondition or the body,
// which are checked after the query's id.
func blamesRequest(code apierr.Code) bool {
	return code == apierr.InvalidRequest || code == apierr.PreconditionFailed || code == apierr.PayloadTooLarge ||
		code == apierr.UnsupportedMediaType
}

// Coded returns the error for the response: err itself if it has a code, and otherwise an error
// without the details of err.
func Coded(c *gin.Context, err error) *apierr.Error {
	var coded *apierr.Error
	if errors.As(err, &coded) || errors.As(pg.Unavailable(err), &coded) {
		return coded
	}
	if errors.Is(err, sealdb.ErrUnopened) || errors.Is(err, sealdb.ErrContentSealed) {
		return missingKey(err)
	}
	if c.Request.Context().Err() != nil { // including PostgreSQL's error for a cancelled statement
		gone := apierr.New(apierr.Unavailable, "the request was cancelled") // the client has disconnected, so it does not read this
		gone.RetryAfter = time.Second
		return gone
	}
	return internal()
}

// missingKey returns the error for a missing encryption key. Only the log contains which key is
// missing, and which data needs it.
func missingKey(err error) *apierr.Error {
	missing := apierr.Wrap(apierr.Unavailable, err,
		"stored data for this request cannot be decrypted; the operator can find the reason in the log and with parley secrets status")
	missing.RetryAfter = time.Minute
	return missing
}

// internal returns the error for unexpected failures. It does not contain the cause, which is only
// logged.
func internal() *apierr.Error {
	return apierr.New(apierr.Internal, "internal error; search the service's log for the request id")
}

// Handle converts a function that returns an error to a gin handler, which passes the error to
// Fail.
func Handle(handle func(*gin.Context) error) gin.HandlerFunc {
	return func(c *gin.Context) {
		if err := handle(c); err != nil {
			Fail(c, err)
		}
	}
}

// FailOn is like Fail, for HTML pages. It calls show with the status and a message for people, and
// show responds. The header Retry-After is set as by Fail, but no resource is looked up.
func FailOn(c *gin.Context, err error, show func(status int, problem string)) {
	StateFor(c).Err = err
	coded := nameMissing(c, Coded(c, err))

	kind, known := Kinds[coded.Code]
	if !known {
		coded, kind = internal(), Kinds[apierr.Internal]
	}
	if kind.Status == http.StatusTooManyRequests || kind.Status == http.StatusServiceUnavailable {
		c.Header("Retry-After", strconv.Itoa(wholeSeconds(coded.RetryAfter)))
	}
	if len(coded.Fields) == 0 {
		show(kind.Status, sentence(coded.Detail))
		return
	}

	all := make([]string, len(coded.Fields))
	for i, f := range coded.Fields {
		all[i] = sentence(f.Field + " " + f.Message)
	}

	show(kind.Status, strings.Join(all, " "))
}

// sentence returns the argument words as a sentence: it capitalizes the first letter and appends a
// period. The argument must not be empty.
func sentence(words string) string {
	first, size := utf8.DecodeRuneInString(words)
	return string(unicode.ToUpper(first)) + words[size:] + "."
}

// NotFound returns the error for the id of a resource that does not exist or that the caller may
// not read. Fail adds the resource's kind and id.
func NotFound() error { return apierr.Missing() }
