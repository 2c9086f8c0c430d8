// Package templates holds the agent templates that come with Parley: anybody may chat
// with them, and every organization may make agents of its own from them.
//
// They name no model, so that they run on the service's default one. An id, once
// published, stays: links and automations hold it.
package templates
