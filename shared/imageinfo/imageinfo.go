// Package imageinfo reads the type and the size of an image from its header. It decodes no pixels,
// so that it is safe for untrusted images. The formats are PNG, JPEG, WebP and GIF. A valid header
// does not mean that the rest of the image can be decoded.
package imageinfo

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Media types of the formats.
const (
	PNG  = "image/png"
	JPEG = "image/jpeg"
	WebP = "image/webp"
	GIF  = "image/gif"
)

// HeadBytes is the number of bytes that Type needs.
const HeadBytes = 16

// MaxPixels is the maximum number of pixels of an image that is decoded.
const MaxPixels = 25_000_000

// maxSegments is the maximum number of segments before the size of a JPEG image. The metadata of a
// photograph takes a few dozen segments.
const maxSegments = 2000

// Errors of Read.
var (
	ErrFormat  = errors.New("is not a PNG, JPEG, WebP or GIF image")
	ErrDamaged = errors.New("is a damaged image: its header cannot be read")
	ErrPixels  = fmt.Errorf("has more than %d pixels", MaxPixels)
)

// Info describes an image. The size is in pixels, as stored; the orientation in a photograph's
// metadata is not applied.
type Info struct {
	MediaType     string
	Width, Height int
}

// IsImage reports whether a media type is one of the formats.
func IsImage(mediaType string) bool {
	switch mediaType {
	case PNG, JPEG, WebP, GIF:
		return true
	default:
		return false
	}
}

// Type returns the media type of an image that begins with head, or "" for any other format.
func Type(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte("\x89PNG\r\n\x1a\n")):
		return PNG
	case bytes.HasPrefix(head, []byte("\xff\xd8\xff")):
		return JPEG
	case bytes.HasPrefix(head, []byte("GIF87a")), bytes.HasPrefix(head, []byte("GIF89a")):
		return GIF
	case len(head) >= 12 && string(head[:4]) == "RIFF" && string(head[8:12]) == "WEBP":
		return WebP
	default:
		return ""
	}
}

// Read reads the header of an image. It reads in blocks of up to 4096 bytes, so it may read past
// the header. The error is ErrFormat, ErrDamaged, ErrPixels or an error of the given reader. With
// ErrPixels, the result contains the size.
func Read(from io.Reader) (Info, error) {
	in := bufio.NewReaderSize(from, 4096)
	head, err := in.Peek(HeadBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return Info{}, err //nolint:wrapcheck // an error of the caller's reader
	}
	info := Info{MediaType: Type(head)}
	switch info.MediaType {
	case PNG:
		err = info.png(in)
	case JPEG:
		err = info.jpeg(in)
	case GIF:
		err = info.gif(in)
	case WebP:
		err = info.webp(in)
	default:
		return Info{}, ErrFormat
	}

	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), err == nil && (info.Width < 1 || info.Height < 1):
		return info, ErrDamaged
	case err != nil:
		return info, err
	case int64(info.Width)*int64(info.Height) > MaxPixels:
		return info, ErrPixels
	}
	return info, nil
}

// png reads the size from the chunk IHDR, which is the first chunk.
func (i *Info) png(in io.Reader) error {
	var b [24]byte
	if _, err := io.ReadFull(in, b[:]); err != nil {
		return err //nolint:wrapcheck // explained by Read
	}
	if string(b[12:16]) != "IHDR" {
		return ErrDamaged
	}
	return i.set(binary.BigEndian.Uint32(b[16:]), binary.BigEndian.Uint32(b[20:]))
}

// gif reads the size of the logical screen, in which all frames are shown.
func (i *Info) gif(in io.Reader) error {
	var b [10]byte
	if _, err := io.ReadFull(in, b[:]); err != nil {
		return err //nolint:wrapcheck // explained by Read
	}
	return i.set(uint32(binary.LittleEndian.Uint16(b[6:])), uint32(binary.LittleEndian.Uint16(b[8:])))
}

// webp reads the first chunk, whose type determines how the size is encoded: VP8X, VP8L or VP8.
func (i *Info) webp(in io.Reader) error {
	var b [30]byte
	if _, err := io.ReadFull(in, b[:]); err != nil {
		return err //nolint:wrapcheck // explained by Read
	}
	switch data := b[20:]; string(b[12:16]) {
	case "VP8X":
		width := uint32(data[4]) | uint32(data[5])<<8 | uint32(data[6])<<16
		height := uint32(data[7]) | uint32(data[8])<<8 | uint32(data[9])<<16
		return i.set(width+1, height+1)
	case "VP8L":
		bits := binary.LittleEndian.Uint32(data[1:])
		if data[0] != 0x2f {
			return ErrDamaged
		}
		return i.set(bits&0x3fff+1, bits>>14&0x3fff+1)
	case "VP8 ":
		if !bytes.Equal(data[3:6], []byte{0x9d, 0x01, 0x2a}) {
			return ErrDamaged
		}
		return i.set(uint32(binary.LittleEndian.Uint16(data[6:])&0x3fff), uint32(binary.LittleEndian.Uint16(data[8:])&0x3fff))
	default:
		return ErrDamaged
	}
}

// jpeg skips the segments before the first frame header, at most maxSegments, and reads the size
// from that header.
func (i *Info) jpeg(in *bufio.Reader) error {
	if _, err := in.Discard(2); err != nil {
		return err //nolint:wrapcheck // explained by Read
	}
	for range maxSegments {
		kind, err := marker(in)
		switch {
		case err != nil:
			return err
		case kind == 0x01, kind >= 0xd0 && kind <= 0xd8: // no length
			continue
		case kind == 0, kind == 0xd9, kind == 0xda: // the image ends, or its pixels begin, without a frame header
			return ErrDamaged
		}

		var b [7]byte
		if _, err := io.ReadFull(in, b[:2]); err != nil {
			return err //nolint:wrapcheck // explained by Read
		}
		length := int(binary.BigEndian.Uint16(b[:])) - 2
		if length < 0 {
			return ErrDamaged
		}
		if isFrame(kind) {
			if _, err := io.ReadFull(in, b[2:]); err != nil {
				return err //nolint:wrapcheck // explained by Read
			}
			return i.set(uint32(binary.BigEndian.Uint16(b[5:])), uint32(binary.BigEndian.Uint16(b[3:])))
		}
		if _, err := in.Discard(length); err != nil {
			return err //nolint:wrapcheck // explained by Read
		}
	}
	return ErrDamaged
}

// marker reads the kind of the next segment, after padding.
func marker(in *bufio.Reader) (byte, error) {
	first, err := in.ReadByte()
	if err != nil {
		return 0, err //nolint:wrapcheck // explained by Read
	}
	if first != 0xff {
		return 0, ErrDamaged
	}
	for {
		kind, err := in.ReadByte()
		if err != nil || kind != 0xff {
			return kind, err //nolint:wrapcheck // explained by Read
		}
	}
}

// isFrame reports whether a segment is a frame header.
func isFrame(kind byte) bool {
	return kind >= 0xc0 && kind <= 0xcf && kind != 0xc4 && kind != 0xc8 && kind != 0xcc
}

// set sets the image's size. An image with a side of 2³¹ pixels or more is damaged.
func (i *Info) set(width, height uint32) error {
	if width >= 1<<31 || height >= 1<<31 {
		return ErrDamaged
	}
	i.Width, i.Height = int(width), int(height)
	return nil
}
