package pg

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"parley/shared/apierr"
)

// ErrLocked means that another transaction has locked a row that the call needs. Nothing was
// written, and the call can be repeated.
var ErrLocked = errors.New("the row is locked by another operation")

// IsLocked reports whether a call failed because another transaction has locked a row.
func IsLocked(err error) bool { return errors.Is(err, ErrLocked) || HasCode(err, "55P03") }

// HasCode reports whether err is a PostgreSQL error with one of the SQLSTATE codes.
func HasCode(err error, codes ...string) bool {
	var pqErr *pq.Error
	if !errors.As(err, &pqErr) {
		return false
	}
	return slices.Contains(codes, string(pqErr.Code))
}

// Violates reports whether err is a violation of the named unique constraint or index.
func Violates(err error, constraint string) bool {
	var pqErr *pq.Error
	return errors.As(err, &pqErr) && pqErr.Code == "23505" && pqErr.Constraint == constraint
}

// IsBadData reports whether PostgreSQL rejected a value (class 22) or a constraint was
// violated (class 23).
func IsBadData(err error) bool {
	var pqErr *pq.Error
	return errors.As(err, &pqErr) && (pqErr.Code.Class() == "22" || pqErr.Code.Class() == "23")
}

// IsDisconnect reports whether err means that the server did not reply, rather than that it
// rejected the statement.
func IsDisconnect(err error) bool {
	if pqErr, ok := errors.AsType[*pq.Error](err); ok {
		if pqErr.Fatal() || pqErr.Severity == pqerror.SeverityPanic {
			return true // the server closed or refused the connection, for example because its disk is full
		}
		switch pqErr.Code.Class() {
		case "08", "57", "53", "58": // connection, operator, resources, system
			return true
		}
		return false
	}

	// An expired deadline counts as a disconnect, too, because the statement may have been
	// executed.
	var netErr *net.OpError
	for _, gone := range []error{driver.ErrBadConn, sql.ErrConnDone, io.EOF, io.ErrUnexpectedEOF, context.DeadlineExceeded} {
		if errors.Is(err, gone) {
			return true
		}
	}

	return errors.As(err, &netErr)
}

// IsServerBroken reports whether err means that the server cannot use its own programs or files,
// for example a library that an upgrade has replaced.
func IsServerBroken(err error) bool {
	pqErr, ok := errors.AsType[*pq.Error](err)
	return ok && (pqErr.Code.Class() == "58" || pqErr.Code.Class() == "XX")
}

// Unavailable converts a temporary database error to the coded error unavailable (503), and returns
// other errors unchanged. A database without this release's schema counts as temporarily
// unavailable, because its migration may still follow.
func Unavailable(err error) error {
	// A coded error already has a message for the caller.
	var coded *apierr.Error
	if err == nil || errors.As(err, &coded) {
		return err
	}

	detail := "the service cannot reach its database; try again shortly"
	switch {
	case HasCode(err, "42P01", "42703", "42883"): // undefined table, column, or function
		detail = "the service's database does not have this release's schema yet; run parley migrate"
	case IsLocked(err):
		detail = "a resource of this request is locked by another operation; try again shortly"
	case !IsDisconnect(err):
		return err
	}

	e := apierr.Wrap(apierr.Unavailable, err, "%s", detail)
	e.RetryAfter = time.Second
	return e
}

// NotFound returns the coded error not_found (404) for a resource.
func NotFound() error { return apierr.Missing() }

// OneRow converts the error of reading a single row. It returns not_found if there was no row, and
// wraps other errors. The argument doing describes the operation.
func OneRow(err error, doing string) error {
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return NotFound()
	case err != nil:
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// IgnoreNone returns err, or nil if err means that there was no row.
func IgnoreNone(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}

// AnyRow reports whether a statement changed at least one row.
func AnyRow(done sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := done.RowsAffected()
	return n > 0, err
}
