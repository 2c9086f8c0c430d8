// Package extract reads untrusted documents in a sandbox. The reader in the sandbox is the same
// program as this process, started in another mode (see [Main]). Its output is validated, because a
// malicious document may have taken control of the reader.
//
//	Extractor.Read ─► sandbox ─► Main ─► parse, parse/formats, parse/pdf ─► pdftotext, tesseract
//	      ▲                                    │
//	      └─ checked ◄─ lines of JSON ◄────────┘
package extract
