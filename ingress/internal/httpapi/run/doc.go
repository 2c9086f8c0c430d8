// Package run begins runs and shows them: chats, automations, sessions, streams, and what runs cite and make.
package run
