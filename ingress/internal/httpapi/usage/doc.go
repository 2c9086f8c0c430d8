// Package usage shows what an organization has used and may use.
package usage
