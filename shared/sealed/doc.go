// Package sealed manages the values that are stored sealed with the keys of SECRETS_KEY: which keys
// these values need (Count, Watch), how they are sealed with the current key (Reseal), and how the
// operator is notified about a value that cannot be opened (Watch.Unopened).
//
// A key is retired in this order:
//
//	new,old everywhere ── Reseal: every value has the new key ── Count: old 0 ── new alone
//
// Reseal has no stored state. The schema lists values by the keys that they need, so a later run
// continues an interrupted run.
package sealed
