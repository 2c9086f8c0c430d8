// Package runbody reads the fields of run requests that chats, triggers and the foreign protocols
// share: the message, the session, the key, the model settings, the form of the answer, the client's
// tools and the attachments.
package runbody
