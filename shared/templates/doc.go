// Package templates contains the agent templates that Parley provides. Everyone may chat with
// them, and every organization may create agents from them.
//
// They specify no model and use the service's default one. A published id never changes,
// because links and automations contain it.
package templates
