// Package tool is what a turn loop knows of tools: how one is described to a model, how
// it is called, and which ones a run has. Each tool is a package of its own below this
// one; a run's set is fixed in a [Registry] when the run starts, and whatever a call
// needs to know of run, organization and agent is bound to the tool then, never taken
// from the model.
package tool
