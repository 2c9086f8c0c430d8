// Package runbody reads the fields that run requests share, whether they come from chats,
// automations or other protocols. These are the message, the session id, the idempotency key, the
// model settings, the form of the answer, the client's tools and the attachments.
package runbody
