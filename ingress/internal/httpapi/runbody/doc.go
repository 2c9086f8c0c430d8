// Package runbody reads the fields that run requests share, whether they come from chats,
// automations or other protocols. These are the message, the session id, the idempotency key, the
// model settings, the form of the answer, the client's tools and the attachments.
//
// The types are parts of request bodies, which embed them. Functions add problems to a list that
// the handler turns into one error. The results are values of packages domain and dispatch, from
// which the handler makes a submission.
//
// The package checks fields without the database. When the run is accepted, package dispatch checks
// whether the agent, the session and the files exist, and whether the model accepts the settings.
package runbody
