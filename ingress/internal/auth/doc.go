// Package auth identifies callers: it turns a request's credentials into a domain.Caller. It also
// hashes passwords, sets the session cookie, and makes the tokens of widget visitors.
//
//	headers ──► presented ──► credential ──► caller ──► organization
//	            (400 when      (401 when     (403, 401    (400, 403 when it
//	             malformed)     unknown)      by need)     may not be named)
//
// An explicit header takes precedence over a cookie, and two explicit credentials are refused.
// Credentials are read from the database in batches and cached for 4 s. A request costs no query,
// and a revocation takes effect everywhere within 5 s.
//
// A widget token is sealed and not stored. It contains the agent, origin and visitor that it is
// bound to. Whether the agent's widget still lists the origin is looked up at each use and cached.
package auth
