// Package sealed watches over the values that the database holds sealed with the keys of SECRETS_KEY: which keys they need (Count, Watch),
// how they come to have the current key (Reseal), and what the operator learns when one cannot be opened (Watch.Unopened).
//
// A key is retired in this order:
//
//	new,old everywhere ── Reseal: every value has the new key ── Count: old 0 ── new alone
//
// Reseal keeps no state of its own. The schema lists values by the keys that they need, so the next run continues one that was interrupted.
package sealed
