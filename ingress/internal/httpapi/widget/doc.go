// Package widget handles the requests of the widgets that websites embed. A widget is a chat with
// one agent on a page of another origin. It works without an account and without cookies:
//
//	page ─► POST /api/widget/sessions ─► token for one agent, origin and visitor
//	     ─► POST /api/agents?action=chat with the token ─► package run
//
// This package issues the tokens, and lets pages of the listed origins read the responses of the
// few routes that widgets need (CORS). It stores nothing. Package auth encrypts tokens and visitor
// names, and the agent's list of origins comes from a cache.
package widget
