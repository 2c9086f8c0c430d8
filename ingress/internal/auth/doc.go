// Package auth identifies callers: it turns a request's credentials into a domain.Caller. It also
// hashes passwords, sets the session cookie, and creates the tokens of widget visitors.
//
//	headers ──► presented ──► credential ──► caller ──► organization
//	            (400 when      (401 when     (403, 401    (400, 403 when it
//	             malformed)     unknown)      by need)     may not be named)
//
// An explicit header takes precedence over a cookie, and requests with two different explicit
// credentials are rejected. Credentials are read from the database in batches and cached for 4 s. A
// request usually needs no query, and a revocation takes effect everywhere within 5 s.
//
// A widget token is encrypted and not stored. It contains the agent, the origin and the visitor for
// which it is valid. At each use, a cached lookup checks that the agent's widget still lists the
// origin.
package auth
