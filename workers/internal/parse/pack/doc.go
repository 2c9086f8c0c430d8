// Package pack opens the ZIP archives that documents are made of, and is strict with them: what of an archive is not read of a
// document is never inflated, what is inflated is bounded, and archives in archives are never opened.
package pack
