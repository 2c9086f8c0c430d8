// Package model is a provider of models as a process of its own, so that its connections and its CPU time are not the bench's: it
// speaks OpenAI's protocol on loopback and repeats what it is told, after a while or when it is let.
package model
