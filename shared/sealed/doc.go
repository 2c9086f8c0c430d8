// Package sealed manages the values that are stored sealed with the keys of SECRETS_KEY: which
// keys they need (Count, Watch), how they get the current key (Reseal), and how the operator is
// notified of a value that cannot be opened (Watch.Unopened).
//
// A key is retired in this order:
//
//	new,old everywhere ── Reseal: every value has the new key ── Count: old 0 ── new alone
//
// Reseal has no stored state. The schema lists values by the keys that they need, so a later
// run continues an interrupted one.
package sealed
