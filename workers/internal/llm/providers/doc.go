// Package providers creates the registry of all model providers. It is the only package that
// imports all of them.
package providers
