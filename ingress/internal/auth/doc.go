// Package auth tells who calls: it turns a request's credentials into a domain.Caller,
// keeps passwords, and sets the session cookie.
//
//	headers ──► presented ──► credential ──► caller ──► organization
//	            (400 when      (401 when     (403, 401    (400, 403 when it
//	             malformed)     unknown)      by need)     may not be named)
//
// An explicit header beats an ambient cookie, and two explicit credentials are refused.
// Credentials are read from the database in batches and remembered for 4 s, so that a
// request costs no query, and a revocation holds everywhere within 5 s.
package auth
