package realtimeclient

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"time"
)

const (
	// Rate is the protocol's audio sample rate in Hz.
	Rate = 24_000
	// BytesPerSecond is the protocol's audio byte rate.
	BytesPerSecond = 2 * Rate
)

// Lasts returns the duration of audio with the given number of bytes.
func Lasts(bytes int) time.Duration { return time.Duration(bytes) * time.Second / BytesPerSecond }

// Silence returns silent audio of the given duration.
func Silence(d time.Duration) []byte { return make([]byte, 2*int(d.Seconds()*Rate)) }

// Speech synthesizes a text with espeak-ng, in the protocol's audio format. voice is a voice of
// espeak-ng. The voice en-us+f5 is the one that pocketsphinx recognizes best.
func Speech(ctx context.Context, voice, text string) ([]byte, error) {
	const wordsAMinute = "155"
	cmd := exec.CommandContext(ctx, "espeak-ng", "-v", voice, "-s", wordsAMinute, "--stdout", "--", text)
	wav, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("running espeak-ng: %w", err)
	}

	samples, rate, err := readWAV(wav)
	if err != nil {
		return nil, err
	}

	resampled := resample(samples, rate, Rate)
	pcm := make([]byte, 0, 2*len(resampled))
	for _, s := range resampled {
		pcm = binary.LittleEndian.AppendUint16(pcm, uint16(s))
	}
	return pcm, nil
}

var errWAV = errors.New("reading WAV: unexpected format")

// readWAV returns the samples in the output that espeak-ng writes to a pipe. The output has a
// format chunk and a sample chunk, and the length in the sample chunk is not valid.
func readWAV(wav []byte) (samples []int16, rate int, err error) {
	const head = 44
	if len(wav) < head || string(wav[:4]) != "RIFF" || string(wav[36:40]) != "data" || binary.LittleEndian.Uint16(wav[22:]) != 1 {
		return nil, 0, errWAV
	}
	for data := wav[head:]; len(data) > 1; data = data[2:] {
		samples = append(samples, int16(binary.LittleEndian.Uint16(data)))
	}
	return samples, int(binary.LittleEndian.Uint32(wav[24:])), nil
}

// resample converts audio to another sample rate by windowed sinc interpolation.
func resample(in []int16, from, to int) []int16 {
	const lobes = 16
	step, cut := float64(from)/float64(to), math.Min(1, float64(to)/float64(from))
	out := make([]int16, int(float64(len(in))/step))
	for i := range out {
		at := float64(i) * step
		var sum float64
		for j := max(0, int(at)-lobes+1); j <= min(len(in)-1, int(at)+lobes); j++ {
			x := at - float64(j)
			sum += float64(in[j]) * cut * sinc(cut*x) * (0.5 + 0.5*math.Cos(math.Pi*x/lobes))
		}
		out[i] = int16(math.Max(math.MinInt16, math.Min(math.MaxInt16, math.Round(sum))))
	}
	return out
}

func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	return math.Sin(math.Pi*x) / (math.Pi * x)
}
