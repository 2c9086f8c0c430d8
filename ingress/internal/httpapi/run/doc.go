// Package run handles chats, automations, runs and sessions, their event streams, and the sources
// and files of runs.
package run
