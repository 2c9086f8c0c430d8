package model

import (
	"fmt"
	"slices"
	"time"

	"parley/shared/testkit/openaistub"
)

// Name is the model's name in the configuration of agents that call this provider.
const Name = OpenAI + "bench"

// codeTool is the name of the tool that executes code.
const codeTool = "codeExecution"

// Model is a model provider that echoes messages and calls tools.
type Model struct {
	provider

	delay time.Duration
}

// Start starts a provider that sends each answer after the given delay. The answer repeats the
// user's message. If the agent has codeExecution, the provider first asks it to execute the message
// as a program. If the agent has LookupTool, the provider first calls this tool LookupCalls times,
// one call after another.
func Start(delay time.Duration) *Model {
	m := &Model{provider: provider{gate: newGate()}, delay: delay}
	stub := openaistub.New()
	stub.Respond(m.respond)
	m.server = serve(stub)
	return m
}

// respond waits while answers are held. It returns false if package openaistub must create the
// answer, which is the case if the provider has no delay and the request has no tools.
func (m *Model) respond(r openaistub.Request) (openaistub.Reply, bool) {
	<-m.opened()
	switch results := countResults(r); {
	case slices.Contains(r.Tools, codeTool) && results == 0:
		return call(codeTool, fmt.Sprintf(`{"code":%q}`, r.Prompt()), results), true
	case slices.Contains(r.Tools, LookupTool) && results < LookupCalls:
		return call(LookupTool, fmt.Sprintf(`{"id":"%d"}`, results), results), true
	}
	return openaistub.Reply{Text: "echo: " + r.Prompt(), Delay: m.delay}, m.delay > 0 || len(r.Tools) > 0
}

// call returns a reply that requests the nth call of a run.
func call(tool, arguments string, nth int) openaistub.Reply {
	return openaistub.Reply{ToolCalls: []openaistub.ToolCall{{ID: fmt.Sprintf("call_%d", nth), Name: tool, Arguments: arguments}}}
}

// countResults counts the tool results after the last user message.
func countResults(r openaistub.Request) (n int) {
	for _, message := range slices.Backward(r.Messages) {
		switch message.Role {
		case "tool":
			n++
		case "user":
			return n
		}
	}
	return n
}
