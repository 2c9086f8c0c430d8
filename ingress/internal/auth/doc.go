// Package auth tells who calls: it turns a request's credentials into a domain.Caller,
// keeps passwords, sets the session cookie, and makes the tokens of widgets' visitors.
//
//	headers ──► presented ──► credential ──► caller ──► organization
//	            (400 when      (401 when     (403, 401    (400, 403 when it
//	             malformed)     unknown)      by need)     may not be named)
//
// An explicit header beats an ambient cookie, and two explicit credentials are refused.
// Credentials are read from the database in batches and remembered for 4 s, so that a
// request costs no query, and a revocation holds everywhere within 5 s.
//
// A widget token is sealed and stored nowhere. What it is bound to - agent, origin, visitor - is in it; whether
// the agent's widget still lists that origin is looked up at each use, and remembered as credentials are.
package auth
