package picture

import (
	"bytes"
	"encoding/binary"

	"parley/shared/imageinfo"
)

// The format of EXIF: the number of the orientation's tag, the maximum number of entries that are
// examined, and the size of an entry in bytes.
const (
	tagOrientation = 0x0112
	maxEntries     = 1000
	entryBytes     = 12
)

// orientation returns the EXIF orientation of a JPEG image. If the image has none, the result is 1,
// which means upright. Damaged headers are not an error: the image then counts as upright.
func orientation(mediaType string, content []byte) int {
	if mediaType != imageinfo.JPEG {
		return 1
	}
	// Visit the segments before the image data. Each segment begins with a marker and the segment's
	// length.
	for at := 2; at+4 <= len(content) && content[at] == 0xff; {
		kind := content[at+1]
		length := int(binary.BigEndian.Uint16(content[at+2:]))
		if kind == 0xda || length < 2 || at+2+length > len(content) {
			break
		}
		body := content[at+4 : at+2+length]
		if exif, is := bytes.CutPrefix(body, []byte("Exif\x00\x00")); kind == 0xe1 && is {
			return exifOrientation(exif)
		}
		at += 2 + length
	}
	return 1
}

// exifOrientation returns the orientation that is stored in the first directory of an EXIF block.
// The value is not checked; turn ignores invalid values.
func exifOrientation(exif []byte) int {
	var order binary.ByteOrder = binary.LittleEndian
	switch {
	case bytes.HasPrefix(exif, []byte("MM\x00*")):
		order = binary.BigEndian
	case !bytes.HasPrefix(exif, []byte("II*\x00")):
		return 1
	}
	if len(exif) < 8 {
		return 1
	}

	// Offsets count from the beginning of the block. They may be wrong, so each is compared with
	// the length of the block.
	at := uint64(order.Uint32(exif[4:]))
	if at+2 > uint64(len(exif)) {
		return 1
	}
	entries := exif[at+2:]
	for range min(int(order.Uint16(exif[at:])), maxEntries) {
		if len(entries) < entryBytes {
			break
		}
		if order.Uint16(entries) == tagOrientation {
			return int(order.Uint16(entries[8:]))
		}
		entries = entries[entryBytes:]
	}
	return 1
}
