// Package knowledge keeps the documents of organizations.
package knowledge
