package parse

// MIME types for which there are readers.
const (
	PDF       = "application/pdf"
	DOCX      = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
	PPTX      = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
	XLSX      = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
	EPUB      = "application/epub+zip"
	HTML      = "text/html"
	Markdown  = "text/markdown"
	Text      = "text/plain"
	CSV       = "text/csv"
	TSV       = "text/tab-separated-values"
	JSON      = "application/json"
	JSONLines = "application/x-ndjson"
)

// extensions maps file extensions to MIME types.
var extensions = map[string]string{
	".pdf": PDF, ".docx": DOCX, ".docm": DOCX, ".dotx": DOCX, ".pptx": PPTX, ".pptm": PPTX, ".ppsx": PPTX, ".potx": PPTX,
	".xlsx": XLSX, ".xlsm": XLSX, ".xltx": XLSX, ".epub": EPUB, ".html": HTML, ".htm": HTML, ".xhtml": HTML,
	".md": Markdown, ".markdown": Markdown, ".mdown": Markdown, ".mkd": Markdown, ".txt": Text, ".text": Text, ".log": Text,
	".csv": CSV, ".tsv": TSV, ".tab": TSV, ".json": JSON, ".jsonl": JSONLines, ".ndjson": JSONLines, ".geojson": JSON,
}

// aliases maps other MIME types, which some senders use, to the MIME types of the supported
// formats.
var aliases = map[string]string{
	"text/x-markdown": Markdown, "application/xhtml+xml": HTML, "application/csv": CSV, "application/x-csv": CSV, "text/json": JSON,
	"application/jsonl": JSONLines, "application/x-jsonlines": JSONLines, "application/jsonlines": JSONLines, "application/ndjson": JSONLines,
	"application/ld+json": JSON, "application/geo+json": JSON, "application/vnd.ms-excel.csv": CSV,
}

// typeNames maps MIME types to their names in messages, with an article where English requires one.
// In messages, a type without a name is "not a supported document format".
var typeNames = map[string]string{
	PDF: "a PDF document", DOCX: "a Word document", PPTX: "a PowerPoint presentation", XLSX: "an Excel workbook", EPUB: "an EPUB book",
	HTML: "an HTML page", Markdown: "Markdown", Text: "plain text", CSV: "comma-separated values", TSV: "tab-separated values",
	JSON: "JSON", JSONLines: "JSON Lines",
	"application/x-ole-storage":                     "an unsupported Office file",
	"application/msword":                            "a Word document in the old binary format (.doc)",
	"application/vnd.ms-excel":                      "an Excel workbook in the old binary format (.xls)",
	"application/vnd.ms-powerpoint":                 "a PowerPoint presentation in the old binary format (.ppt)",
	"application/vnd.ms-outlook":                    "an Outlook message (.msg)",
	xlsb:                                            "an Excel workbook in the binary format (.xlsb)",
	"application/x-msi":                             "a Windows installer",
	"application/rtf":                               "a Rich Text document (.rtf)",
	"application/postscript":                        "a PostScript file",
	"application/zip":                               "a ZIP archive",
	"application/jar":                               "a Java archive",
	"application/java-archive":                      "a Java archive",
	"application/vnd.android.package-archive":       "an Android app",
	"application/x-rar-compressed":                  "a RAR archive",
	"application/x-7z-compressed":                   "a 7-Zip archive",
	"application/x-tar":                             "a tar archive",
	"application/gzip":                              "a gzip archive",
	"application/x-bzip2":                           "a bzip2 archive",
	"application/x-xz":                              "an xz archive",
	"application/zstd":                              "a Zstandard archive",
	"application/x-elf":                             "a program",
	"application/x-executable":                      "a program",
	"application/x-sharedlib":                       "a program",
	"application/x-object":                          "a program",
	"application/vnd.microsoft.portable-executable": "a program",
	"application/x-mach-binary":                     "a program",
	"application/wasm":                              "a program",
	"application/x-java-applet":                     "a program",
	"application/x-sqlite3":                         "a database",
	"application/vnd.sqlite3":                       "a database",
	"application/x-mobipocket-ebook":                "a Mobipocket book",
	"image/svg+xml":                                 "an SVG image",
	"image/vnd.djvu":                                "a DjVu document",
	"application/vnd.ms-htmlhelp":                   "a compiled help file",
	"application/vnd.ms-xpsdocument":                "an XPS document",
	iwork:                                           "an iWork document",
}

// These are MIME types that the detection library does not support.
const (
	xlsb  = "application/vnd.ms-excel.sheet.binary.macroenabled.12"
	iwork = "application/vnd.apple.iwork"
)
