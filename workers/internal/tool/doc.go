// Package tool defines tools for the agent loop: how a tool is described to a model, how it is
// called, and which tools a run has. Each tool has its own package below this one. A run's tools
// are fixed in a [Registry] when the run starts. At that time, the ids of the run, the organization
// and the agent are bound to the tools. These ids never come from the model.
package tool
