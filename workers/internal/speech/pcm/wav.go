package pcm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Sizes and values in the headers of WAV files, in bytes.
const (
	riffHead  = 12
	chunkHead = 8
	maxChunks = 16       // maximum number of chunks before the audio data
	maxChunk  = 64 << 10 // maximum number of bytes in a chunk that is skipped
	minFormat = 16
	plainPCM  = 1
)

// AppendWAV appends a WAV file that contains sound to b. rate is the sample rate in Hz.
func AppendWAV(b, sound []byte, rate int) []byte {
	b = append(b, "RIFF"...)
	b = appendUint32(b, riffHead+minFormat+chunkHead+len(sound))
	b = append(b, "WAVEfmt "...)
	b = appendUint32(b, minFormat)
	b = binary.LittleEndian.AppendUint16(b, plainPCM)
	b = binary.LittleEndian.AppendUint16(b, 1) // one channel
	b = appendUint32(b, rate)
	b = appendUint32(b, 2*rate)
	b = binary.LittleEndian.AppendUint16(b, 2)  // bytes per sample
	b = binary.LittleEndian.AppendUint16(b, 16) // bits per sample
	b = append(b, "data"...)
	return append(appendUint32(b, len(sound)), sound...)
}

// appendUint32 appends n as four bytes.
func appendUint32(b []byte, n int) []byte {
	return binary.LittleEndian.AppendUint32(b, uint32(n))
}

// ReadWAV reads the header of a WAV file up to the beginning of the audio data, and returns the
// sample rate in Hz. It ignores the size in the header, because a program that writes the header
// before the audio does not know the size. ReadWAV fails if the audio does not have this package's
// format. Afterwards, the rest of r is the audio.
func ReadWAV(r io.Reader) (rate int, err error) {
	var riff [riffHead]byte
	if _, err := io.ReadFull(r, riff[:]); err != nil {
		return 0, fmt.Errorf("reading WAV: %w", err)
	}
	if string(riff[:4]) != "RIFF" || string(riff[8:]) != "WAVE" {
		return 0, errors.New("reading WAV: not a WAV file")
	}
	for range maxChunks {
		var head [chunkHead]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return 0, fmt.Errorf("reading WAV: %w", err)
		}
		name, size := string(head[:4]), int64(binary.LittleEndian.Uint32(head[4:]))
		if name == "data" {
			if rate == 0 {
				return 0, errors.New("reading WAV: data before format")
			}
			return rate, nil
		}
		if size > maxChunk {
			return 0, errors.New("reading WAV: a chunk is too large")
		}
		chunk := make([]byte, size+size%2) // chunks begin at even offsets
		if _, err := io.ReadFull(r, chunk); err != nil {
			return 0, fmt.Errorf("reading WAV: %w", err)
		}
		if name == "fmt " {
			if rate, err = readFormat(chunk); err != nil {
				return 0, err
			}
		}
	}
	return 0, errors.New("reading WAV: no audio data")
}

// readFormat returns the sample rate in a format chunk. It fails if the format is not 16 bit PCM
// with one channel.
func readFormat(chunk []byte) (rate int, err error) {
	if len(chunk) < minFormat {
		return 0, errors.New("reading WAV: truncated format chunk")
	}
	kind, channels := binary.LittleEndian.Uint16(chunk), binary.LittleEndian.Uint16(chunk[2:])
	bits := binary.LittleEndian.Uint16(chunk[14:])
	if kind != plainPCM || channels != 1 || bits != 16 {
		return 0, fmt.Errorf("reading WAV: want 16 bit PCM mono, not format %d of %d bit and %d channels", kind, bits, channels)
	}
	return int(binary.LittleEndian.Uint32(chunk[4:])), nil
}
