// Package extract reads documents that nobody vouches for: in a sandbox, by this process's own program, which is told to be the
// reader there. What the reader says is checked again, for the document may have taken it over.
//
//	Extractor.Read ─► sandbox ─► Main ─► parse, parse/formats, parse/pdf ─► pdftotext, tesseract
//	      ▲                                    │
//	      └─ checked ◄─ lines of JSON ◄────────┘
package extract
