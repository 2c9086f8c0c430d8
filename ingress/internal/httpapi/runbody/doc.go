// Package runbody reads the fields that run requests share, whether they come from chats,
// automations or other protocols. These are the message, the session id, the idempotency key, the
// model settings, the form of the answer, the client's tools and the attachments.
//
// The types are parts of request bodies, which embed them. Functions add problems to a list that
// the handler turns into one error. The results are values of packages domain and dispatch, from
// which the handler makes a submission.
//
// The package checks fields without the database. Whether an agent, a session or a file exists, and
// whether the model accepts a setting, is checked when the run is accepted.
package runbody
