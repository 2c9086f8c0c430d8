// Package voice implements OpenAI's Realtime API: WebSocket connections over which people speak
// with an agent, and client secrets for web pages.
//
// This package checks a request before the upgrade: the protocol, the caller, the agent, the page's
// origin and the limits for connections. Then package voicegate owns the connection until its end:
//
//	realtime ─► checks ─► voicegate.Gate.Serve ─► runs.Begin, for each turn ─► dispatch
//
// The type runs connects voicegate with dispatch. It turns each spoken turn into a chat run with
// the caller's current permissions and rate limit. A connection whose credential was revoked
// therefore cannot start further runs.
//
// The package stores client secrets and playback positions through auth and sessiondb. It handles
// no audio.
package voice
