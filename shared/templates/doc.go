// Package templates contains the agent templates that Parley provides. Everyone may chat with the
// templates, and every organization may create agents from them.
//
// The package also contains the sample documents, from which the suggested messages of the
// templates are answered. Organizations add copies of them. The organization of the demo always has
// copies.
//
// A template specifies no model, so the service's default model is used. A published id never
// changes, because links and automations contain it.
package templates
